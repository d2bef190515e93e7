"""Write one honest log with inspect_ai and its mock model: `python -m perf.importer.seed FOLDER SAMPLES TURNS CHARS`.

A process of its own, since inspect_ai is slow to load. Words are drawn as in natural text, a few often and many
seldom, so that compression behaves as it does on real transcripts.
"""

from __future__ import annotations

import os
import random
import string
import sys
from typing import Any

SCORERS = 5
VOCABULARY = 8000


class _Words:
    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        lengths = (self._draw.randint(2, 10) for _ in range(VOCABULARY))
        self._words = ["".join(self._draw.choices(string.ascii_lowercase, k=length)) for length in lengths]

    def number(self, low: int, high: int) -> int:
        return self._draw.randint(low, high)

    def text(self, characters: int) -> str:
        """About so many characters of words, line breaks and now and then a bit of JSON."""
        parts, length = [], 0
        while length < characters:
            chance = self._draw.random()
            word = self._words[int(chance * chance * VOCABULARY)]
            if chance > 0.99:
                word = f'{{"value": {self.number(0, 10**6)}}}'
            elif chance > 0.97:
                word += "\n"
            parts.append(word)
            length += len(word) + 1
        return " ".join(parts)


def write(folder: str, samples: int, turns: int, characters: int) -> str:
    """Run an eval whose samples have `turns` tool calls with answers of about `characters`; the log's path."""
    os.environ["INSPECT_DISPLAY"] = "none"
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, Scorer, mean, scorer, stderr
    from inspect_ai.solver import generate, system_message, use_tools
    from inspect_ai.tool import Tool, tool

    words = _Words(7)

    @tool
    def shell() -> Tool:
        async def execute(command: str) -> str:
            """Run a command.

            Args:
                command: what to run
            """
            return words.text(characters)

        return execute

    def make_scorer(number: int) -> Scorer:
        @scorer(metrics=[mean(), stderr()], name=f"scorer_{number}")
        def made() -> Scorer:
            async def score(state: Any, target: Any) -> Score:
                value = words.number(0, 1000) / 1000 if number % 2 else "CI"[words.number(0, 1)]
                detail = {"number": number, "note": words.text(50)}
                return Score(value=value, answer=words.text(20), explanation=words.text(200), metadata=detail)

            return score

        return made()

    def answer(messages: list[Any], *_: Any) -> ModelOutput:
        said = sum(message.role == "assistant" for message in messages)
        text, name = words.text(characters // 3), "mockllm/model"
        if said < turns:
            output = ModelOutput.for_tool_call(name, "shell", {"command": words.text(60)}, content=text)
        else:
            output = ModelOutput.from_content(name, text)
        tokens = words.number(100, 5000), words.number(10, 500)  # without usage the mock model counts tokens itself
        output.usage = ModelUsage(input_tokens=tokens[0], output_tokens=tokens[1], total_tokens=sum(tokens))
        return output

    dataset = MemoryDataset(
        [
            Sample(id=f"s{n:05d}", input=words.text(300), target=words.text(10), metadata={"level": n % 5})
            for n in range(samples)
        ]
    )
    task = Task(
        dataset=dataset,
        solver=[system_message(words.text(800)), use_tools(shell()), generate()],
        scorer=[make_scorer(number) for number in range(SCORERS)],
        name="perf",
    )
    log = run_eval(
        task,
        model=get_model("mockllm/model", custom_outputs=answer),
        log_dir=folder,
        log_format="eval",
        log_model_api=True,
        display="none",
        metadata={"eval_set_id": "perf"},
    )[0]
    assert log.status == "success", log.error
    return log.location


if __name__ == "__main__":
    print(write(sys.argv[1], *map(int, sys.argv[2:5])))
