"""Make real logs with inspect_ai and its mock model: `python -m demo.logs FOLDER`.

Runs as a process of its own: inspect_ai takes over a second to import, while the sandbox starts beside it.
"""

import os
import random
import sys
from pathlib import Path

TASKS = ("arithmetic", "geography", "spelling", "dates")
EPISODES = 5  # a task's runs: four tasks of five runs are twenty logs
SAMPLES = 12
JSON_EPISODE = 4  # the last run of each task is written in Inspect's .json format, which the S3 rule does not match


def make(folder: Path) -> list[Path]:
    """Write twenty logs, sixteen `.eval` and four `.json`, below `folder`; return their paths in order of making."""
    os.environ["INSPECT_DISPLAY"] = "none"
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import generate, system_message

    rng = random.Random(20)  # noqa: S311  # answers, not secrets

    def answer(*_: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", f"The answer is {rng.randint(1, 4)}")
        output.usage = ModelUsage(input_tokens=rng.randint(40, 90), output_tokens=6, total_tokens=96)
        return output

    for name in TASKS:
        for episode in range(EPISODES):
            samples = [
                Sample(id=f"{name}-{n}", input=f"Question {n} of {name}?", target=str(n % 4 + 1))
                for n in range(SAMPLES)
            ]
            task = Task(
                dataset=MemoryDataset(samples),
                solver=[system_message("Answer with one number."), generate()],
                scorer=[match(location="end"), includes()],
                name=name,
                metadata={"eval_set_id": f"demo-{name}"},
            )
            [log] = evaluate(
                task,
                model=get_model("mockllm/model", custom_outputs=answer),
                log_dir=str(folder / f"demo-{name}"),
                log_format="json" if episode == JSON_EPISODE else "eval",
                display="none",
            )
            if log.status != "success":
                raise RuntimeError(f"inspect_ai ended {name} with {log.status}: {log.error}")
    return sorted(folder.glob("*/*.*"))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
