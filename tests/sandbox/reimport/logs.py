"""Real logs in numbers: one is made by inspect_ai, the others are clones of it under fresh ids."""

import functools
import io
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ID = re.compile(rb'"([A-Za-z0-9]{22})"')  # inspect_ai's ids of evals, runs, samples, messages and events
LETTERS = string.ascii_letters + string.digits
MAKE = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate
def answer(*_):
    output = ModelOutput.from_content("mockllm/model", "4")
    output.usage = ModelUsage(input_tokens=10, output_tokens=1, total_tokens=11)
    return output
samples = [Sample(id=f"sample-{n}", input=f"What is 2+{n}?", target=str(n + 2)) for n in range(4)]
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(), name="sums")
model = get_model("mockllm/model", custom_outputs=answer)
eval(task, model=model, log_dir=sys.argv[1], log_format="eval", display="none")
"""


@functools.cache
def template() -> tuple[tuple[str, bytes], ...]:
    """The members of a log of four samples, as inspect_ai wrote them."""
    import zipfile_zstd  # noqa: F401  teaches zipfile the method that inspect_ai writes

    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "INSPECT_DISPLAY": "none"}
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True, env=environment, timeout=60)
        [path] = Path(folder).glob("*.eval")
        with zipfile.ZipFile(path) as archive:
            return tuple((name, archive.read(name)) for name in archive.namelist())


def clone(number: int) -> bytes:
    """Log `number`: the template with ids and questions of its own, the same for the same number."""
    rng = random.Random(number)
    fresh = functools.cache(lambda _: b"".join(rng.choice(LETTERS).encode() for _ in range(22)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in template():
            asked = content.replace(b"What is 2+", b"What is %d+" % number)
            archive.writestr(name, ID.sub(lambda found: b'"' + fresh(found[1]) + b'"', asked))
    return out.getvalue()


def damaged(number: int) -> bytes:
    """Log `number` as a writer leaves it whose disk is full: without its central directory."""
    return clone(number)[:-200]


def eval_id(log: bytes) -> str:
    """The id of the evaluation that a log is of."""
    with zipfile.ZipFile(io.BytesIO(log)) as archive:
        return str(json.loads(archive.read("header.json"))["eval"]["eval_id"])
