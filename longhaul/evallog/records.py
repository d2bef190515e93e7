"""The parts of Inspect's records that a column needs; all else is passed over while decoding (W7).

Fields are typed as loosely as the versions of the format demand: what no column computes with stays raw JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

NULL = Raw(b"null")
Number = int | float | str | None  # a string when the log said NaN or an infinity


class Usage(Struct, frozen=True, gc=False):
    """Tokens of one model."""

    input_tokens: Number = 0
    output_tokens: Number = 0
    total_tokens: Number = 0
    reasoning_tokens: Number = None
    input_tokens_cache_read: Number = None
    input_tokens_cache_write: Number = None


class Error(Struct, frozen=True, gc=False):
    """What ended an eval or a sample."""

    message: str = ""
    traceback: str | None = None


class Part(Struct, frozen=True, gc=False):
    """One part of a message's content."""

    type: str = ""
    text: str | None = None
    reasoning: str | None = None
    summary: str | None = None
    redacted: bool = False


class ToolError(Struct, frozen=True, gc=False):
    """Why a tool call failed."""

    type: str | None = None
    message: str | None = None


class Message(Struct, gc=False):
    """One message of a conversation."""

    role: str
    content: str | list[Part | str] | None = ""
    id: str | None = None
    source: str | None = None
    model: str | None = None
    tool_calls: Raw = NULL
    tool_call_id: str | None = None
    function: str | None = None
    error: ToolError | str | None = None
    tool_error: str | None = None
    metadata: Raw = NULL


class Score(Struct, frozen=True, gc=False):
    """One score of a sample."""

    value: Raw = NULL
    answer: str | None = None
    explanation: str | None = None
    reason: str | None = None
    metadata: Raw = NULL


class Event(Struct, frozen=True, gc=False):
    """One event of a sample's transcript: only what is counted, and intermediate scores."""

    event: str = ""
    timestamp: Any = None
    working_time: Number = None
    model: str | None = None
    intermediate: bool = False
    scorer: str | None = None
    score: Raw = NULL


class Limit(Struct, frozen=True, gc=False):
    """Which limit ended a sample."""

    type: str = ""
    limit: Number = None
    reason: str | None = None


class Transcript(Struct, frozen=True, gc=False):
    """Where old logs keep events and attachments."""

    events: list[Event] = []
    content: dict[str, Raw] = {}


class SampleFields(Struct, gc=False, kw_only=True):
    """A sample without its long lists."""

    id: int | str | float
    epoch: int = 1
    input: Raw = NULL
    choices: Raw = NULL
    target: Raw = NULL
    output: Raw = NULL
    scores: dict[str, Score] | None = None
    score: Score | None = None  # old logs
    metadata: Raw = NULL
    model_usage: dict[str, Usage] | None = None
    started_at: str | None = None
    completed_at: str | None = None
    total_time: Number = None
    working_time: Number = None
    uuid: str | None = None
    invalidation: Raw = NULL
    error: Error | None = None
    error_retries: list[Error] | None = None
    limit: Limit | None = None
    turn_count: Number = None


class WholeSample(SampleFields, gc=False, kw_only=True):
    """A sample short enough to be decoded in one go."""

    messages: list[Message] = []
    events: list[Event] | None = None
    attachments: dict[str, Raw] | None = None
    transcript: Transcript | None = None  # old logs
    message_refs: Raw = NULL  # only samples whose parts lie in members of their own have it


class EvalScoreName(Struct, frozen=True):
    """The name of one scorer's results."""

    name: str = ""


class Results(Struct, frozen=True):
    """What the header says of the results."""

    total_samples: int | None = None
    completed_samples: int | None = None
    scores: list[EvalScoreName] | None = None
    scorer: EvalScoreName | None = None  # old logs


class Dataset(Struct, frozen=True):
    """Which dataset the eval used."""

    name: str | None = None
    location: str | None = None
    samples: int | None = None


class PlanStep(Struct, frozen=True):
    """One solver of a plan."""

    solver: str | None = None


class Plan(Struct, frozen=True):
    """The solvers of an eval."""

    name: str = "plan"
    steps: list[PlanStep] = []


class ModelConfig(Struct, frozen=True):
    """The model that plays a role."""

    model: str
    config: Raw = NULL
    base_url: str | None = None
    args: Raw = NULL


class Epochs(Struct, frozen=True):
    """The part of an eval's config that is a column of its own."""

    epochs: int | None = None


class Spec(Struct, kw_only=True):
    """What was evaluated."""

    created: str
    task: str
    model: str
    eval_id: str = ""
    eval_set_id: str | None = None
    run_id: str = ""
    task_id: str = ""
    task_version: int | str | float = 0
    task_display_name: str | None = None
    task_args: Raw = NULL
    solver: str | None = None
    solver_args: Raw = NULL
    tags: list[str] | None = None
    dataset: Dataset = Dataset()
    model_args: Raw = NULL
    model_generate_config: Raw = NULL
    model_base_url: str | None = None
    model_roles: dict[str, ModelConfig | list[ModelConfig]] | None = None
    config: Raw = NULL
    revision: Raw = NULL
    packages: Raw = NULL
    metadata: dict[str, Raw] | None = None


class Stats(Struct, frozen=True):
    """When an eval ran and what it used."""

    started_at: str | None = None
    completed_at: str | None = None
    model_usage: Raw = NULL


class Edit(Struct, frozen=True):
    """One change of tags or metadata made after the eval."""

    tags_add: list[str] = []
    tags_remove: list[str] = []
    metadata_set: dict[str, Raw] = {}
    metadata_remove: list[str] = []


class Provenance(Struct, frozen=True):
    """When an edit was made."""

    timestamp: str | None = None


class LogUpdate(Struct, frozen=True):
    """Edits made together."""

    edits: list[Edit] = []
    provenance: Provenance = Provenance()


class HeaderFields(Struct, kw_only=True):
    """What is said of an eval as a whole (`header.json`, or the front of a `.json` log)."""

    eval: Spec
    version: int = 1
    status: str = "started"
    plan: Raw = NULL
    results: Raw = NULL
    stats: Stats = Stats()
    error: Error | None = None
    invalidated: bool = False
    log_updates: list[LogUpdate] | None = None


class StartFields(Struct, kw_only=True):
    """What a log says before it is finished (`_journal/start.json`)."""

    eval: Spec
    version: int = 1
    plan: Raw = NULL


whole_sample = msgspec.json.Decoder(WholeSample)
sample_fields = msgspec.json.Decoder(SampleFields)
header_fields = msgspec.json.Decoder(HeaderFields)
start_fields = msgspec.json.Decoder(StartFields)
message = msgspec.json.Decoder(Message)
event = msgspec.json.Decoder(Event)
score = msgspec.json.Decoder(Score)
plan = msgspec.json.Decoder(Plan)
results = msgspec.json.Decoder(Results)
epochs = msgspec.json.Decoder(Epochs)
text = msgspec.json.Decoder(str)
