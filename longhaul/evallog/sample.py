"""One sample as the warehouse wants it: references resolved, events counted, long things left as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from longhaul.evallog import identity, records, times
from longhaul.evallog.attachments import REFERENCE_STARTS, Attachments, HeldAttachments, resolve_json, resolve_text
from longhaul.evallog.decode import decode, number, optional, whole_number
from longhaul.evallog.errors import UnsupportedLogError
from longhaul.evallog.header import Header
from longhaul.evallog.records import NULL, Event, SampleFields, Usage, WholeSample

_FLOATS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class ScoreRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One score; ordinal 0 is final, 1… are intermediate ones in their order."""

    scorer: str
    ordinal: int
    value: bytes | None
    value_float: float | None
    answer: str | None
    explanation: str | None
    reason: str | None
    metadata: bytes | None


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One message, without its media."""

    ordinal: int
    message_id: str | None
    role: str
    source: str | None
    text: str | None
    reasoning: str | None
    model: str | None
    tool_calls: bytes | None
    tool_call_id: str | None
    tool_function: str | None
    tool_error_type: str | None
    tool_error_message: str | None
    metadata: bytes | None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One sample; `messages` reads them anew at each call, and must be used before the next sample is read."""

    uuid: str
    id: str
    epoch: int
    input: bytes | None
    choices: bytes | None
    target: bytes | None
    output: bytes | None
    metadata: bytes | None
    model_usage: bytes | None
    usage: Usage | None
    models: dict[str, Usage | None]
    message_count: int
    action_count: int
    generation_count: int
    generation_seconds: float
    started_at: datetime | None
    completed_at: datetime | None
    ordered_at: datetime | None
    total_seconds: float | None
    working_seconds: float | None
    error_message: str | None
    error_traceback: str | None
    error_retries: int
    limit_type: str | None
    limit_value: float | None
    limit_reason: str | None
    turn_count: int | None
    invalidation: bytes | None
    scores: list[ScoreRecord]
    messages: Callable[[], Iterator[MessageRecord]]


class Tally:
    """What is counted while events pass by; the events themselves are not kept."""

    def __init__(self) -> None:
        self.actions = 0
        self.generations = 0
        self.generation_seconds = 0.0
        self.models: set[str] = set()
        self.intermediate: list[tuple[str | None, msgspec.Raw]] = []
        self.last_timestamp: object = None
        self._held_bytes = self._held_count = 0

    def let_go(self) -> int:
        """Copy the scores kept of the last events, which else would stay in memory whole; bytes held in all."""
        for at in range(self._held_count, len(self.intermediate)):
            scorer, score = self.intermediate[at]
            self.intermediate[at] = (scorer, score.copy())
            self._held_bytes += len(bytes(score))
        self._held_count = len(self.intermediate)
        return self._held_bytes

    def add(self, events: Iterable[Event]) -> None:
        """Count some more events."""
        event = None
        for event in events:
            kind = event.event
            if kind == "model":
                self.generations += 1
                seconds = number(event.working_time)
                if seconds is not None and seconds == seconds:
                    self.generation_seconds += seconds
                if event.model:
                    self.models.add(event.model)
            elif kind == "tool":
                self.actions += 1
            elif kind == "score" and event.intermediate:
                self.intermediate.append((event.scorer, event.score))
        if event is not None:
            self.last_timestamp = event.timestamp


def whole(data: bytes, name: str, header: Header, *, doubles_only: bool = False) -> Sample:
    """A sample decoded in one go from the member or element `name`."""
    fields = decode(records.whole_sample, data, name, doubles_only=doubles_only)
    if optional(fields.message_refs) is not None:
        raise UnsupportedLogError(f"{name} lies in several parts: such samples cannot be imported")
    transcript = fields.transcript
    events: Iterable[Event] = transcript.events if transcript else fields.events or []
    tally = Tally()
    tally.add(events)
    attachments = HeldAttachments(transcript.content if transcript else fields.attachments)
    return build(fields, header, tally, attachments, len(fields.messages), lambda: _held_messages(fields, attachments))


def build(
    fields: SampleFields,
    header: Header,
    tally: Tally,
    attachments: Attachments,
    message_count: int,
    messages: Callable[[], Iterator[MessageRecord]],
) -> Sample:
    """Put a sample together from its fields and from what was counted."""
    error, limit = fields.error, fields.limit
    completed_at = times.parse(fields.completed_at)
    usage = fields.model_usage or {}
    models: dict[str, Usage | None] = dict.fromkeys(sorted(tally.models))
    models.update(usage)
    return Sample(
        uuid=fields.uuid or identity.sample_uuid(header.eval_id, fields.id, fields.epoch),
        id=str(fields.id),
        epoch=fields.epoch,
        input=_json(fields.input, attachments),
        choices=optional(fields.choices),
        target=_json(fields.target, attachments),
        output=_json(fields.output, attachments),
        metadata=_json(fields.metadata, attachments),
        model_usage=msgspec.json.encode(usage),
        usage=_total(usage),
        models=models,
        message_count=message_count,
        action_count=tally.actions,
        generation_count=tally.generations,
        generation_seconds=tally.generation_seconds,
        started_at=times.parse(fields.started_at),
        completed_at=completed_at,
        ordered_at=completed_at or times.parse(tally.last_timestamp),
        total_seconds=number(fields.total_time),
        working_seconds=number(fields.working_time),
        error_message=resolve_text(error.message, attachments) if error else None,
        error_traceback=resolve_text(error.traceback, attachments) if error else None,
        error_retries=len(fields.error_retries or []),
        limit_type=limit.type if limit else None,
        limit_value=number(limit.limit) if limit else None,
        limit_reason=limit.reason if limit else None,
        turn_count=whole_number(fields.turn_count),
        invalidation=optional(fields.invalidation),
        scores=_scores(fields, header, tally, attachments),
        messages=messages,
    )


def message_record(message: records.Message, ordinal: int, attachments: Attachments) -> MessageRecord:
    """One message with its references resolved."""
    content = message.content
    if type(content) is str and not content.startswith(REFERENCE_STARTS):  # nearly all
        text: str | None = content
        reasoning = None
    else:
        text, reasoning = _content(message, attachments)
    error = message.error
    if message.tool_error:
        error = records.ToolError(type="unknown", message=message.tool_error)
    elif isinstance(error, str):
        error = records.ToolError(type="unknown", message=error)
    return MessageRecord(
        ordinal=ordinal,
        message_id=message.id,
        role=message.role,
        source=message.source,
        text=text,
        reasoning=reasoning,
        model=message.model,
        tool_calls=_json(message.tool_calls, attachments),
        tool_call_id=message.tool_call_id,
        tool_function=message.function,
        tool_error_type=error.type if error else None,
        tool_error_message=resolve_text(error.message, attachments) if error else None,
        metadata=_json(message.metadata, attachments),
    )


def as_float(value: bytes | None) -> float | None:
    """A score's value as a number: numbers, booleans and Inspect's letter grades; None for lists, objects and words.

    NaN and the infinities stay what they are (case L04); "0.85" is one number, not four characters (case L20).
    """
    if value is None or value[:1] in (b"[", b"{"):
        return None
    if value[:1] != b'"':
        return {b"true": 1.0, b"false": 0.0}.get(value) if value[:1] in (b"t", b"f") else float(value)
    text = records.text.decode(value)
    special = number(text)
    if special is not None:
        return float(special)
    if text in ("C", "P", "I", "N") or text.lower() in ("yes", "no", "true", "false"):
        return _FLOATS[text.lower()]
    try:
        found = float(text)
    except ValueError:
        return None
    return found if found == found and abs(found) != float("inf") else None


def _held_messages(fields: WholeSample, attachments: Attachments) -> Iterator[MessageRecord]:
    for ordinal, message in enumerate(fields.messages):
        yield message_record(message, ordinal, attachments)


def _json(raw: msgspec.Raw, attachments: Attachments) -> bytes | None:
    return None if raw is NULL else resolve_json(optional(raw), attachments)


def _content(message: records.Message, attachments: Attachments) -> tuple[str | None, str | None]:
    """Text and reasoning; parts are joined by line breaks, as inspect_ai does. Media have no text."""
    content = message.content
    if content is None or isinstance(content, str):
        return resolve_text(content, attachments), None
    texts: list[str] = []
    reasonings: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(resolve_text(part, attachments) or "")
        elif part.type == "text":
            texts.append(resolve_text(part.text, attachments) or "")
        elif part.type == "reasoning":
            # A redacted part's own text is ciphertext for replay; what may be read is its summary.
            readable = part.summary if part.redacted else part.reasoning
            reasonings.append(resolve_text(readable, attachments) or "")
    return "\n".join(texts), "\n".join(reasonings) if reasonings else None


def _scores(fields: SampleFields, header: Header, tally: Tally, attachments: Attachments) -> list[ScoreRecord]:
    named = dict(fields.scores or {})
    if fields.score is not None:
        named[header.unnamed_scorer] = fields.score
    placeholder = named.pop("88F74D2C", None)
    if placeholder is not None:
        named[header.unnamed_scorer] = placeholder
    found = [_score(name, 0, score, attachments) for name, score in named.items() if score is not None]
    numbers: dict[str, int] = {}
    for scorer, raw in tally.intermediate:
        score = decode(records.score, bytes(raw), "an intermediate score")
        name = scorer or "intermediate"
        numbers[name] = numbers.get(name, 0) + 1
        found.append(_score(name, numbers[name], score, attachments))
    return found


def _score(scorer: str, ordinal: int, score: records.Score, attachments: Attachments) -> ScoreRecord:
    value = _json(score.value, attachments)
    return ScoreRecord(
        scorer=scorer,
        ordinal=ordinal,
        value=value,
        value_float=as_float(value),
        answer=resolve_text(score.answer, attachments),
        explanation=resolve_text(score.explanation, attachments),
        reason=score.reason,
        metadata=_json(score.metadata, attachments),
    )


def _total(usage: dict[str, Usage]) -> Usage | None:
    """Tokens of all models together; a kind that no model reports stays unknown."""
    if not usage:
        return None
    sums = {}
    for name in Usage.__struct_fields__:
        known = [count for one in usage.values() if (count := whole_number(getattr(one, name))) is not None]
        sums[name] = sum(known) if known else None
    return Usage(**sums)
