"""The spans of a stage: one for each batch that it commits, one for each traced record in it.

`poll TOPIC` spans a batch from the first record's processing to the commit, and links to the trace
of each traced record. `process TOPIC` belongs to a record's own trace, and links to its batch. Both
are recorded when the transaction is committed: work that was aborted is done again, and recorded
then.

A record is traced if its header `traceparent` says so. It is looked at, nothing is decoded, and a
record without it costs one look. A process runs one stage in one thread, so the step under way is
kept in this module.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry.trace import Link, SpanContext

from streams.serde.headers import traceparent
from streams.tracing import carried, loss, spans
from streams.tracing import conventions as names

MOST_RECORDS = 500
"""Spans of records in one step; more are counted as lost, so that a step's time is bounded."""

_SAMPLED = frozenset(b"13579bdf")


class Record(Protocol):
    """An input record; at index 6 it has its headers, which cost less there than by name."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


@dataclass(slots=True)
class _Step:
    stage: str
    began: int
    counts: Counter[str]
    traced: list[tuple[Record, SpanContext]]
    marks: dict[tuple[str, int, int], dict[str, str | bool]] = field(default_factory=dict)


_step: _Step | None = None


def begin(stage: str, batches: Iterable[Sequence[Record]]) -> None:
    """Begin a step; it is forgotten unless `end` is called before the next one."""
    global _step  # noqa: PLW0603
    _step = None
    if not spans.on():
        return
    records = [record for batch in batches for record in batch]
    traced = [(record, context) for record in records if (context := _trace(record))]
    if traced:
        counts = Counter(record.topic for record in records)
        _step = _Step(stage, time.time_ns(), counts, traced)


def mark(records: Iterable[Record], name: str, value: str | bool) -> None:
    """Set an attribute of the spans of these records, if they are traced."""
    if _step is not None:
        for record in records:
            place = record.topic, record.partition, record.offset
            _step.marks.setdefault(place, {})[name] = value


def exemplar() -> dict[str, str] | None:
    """A traced record of the step under way, as the exemplar of an observation."""
    return None if _step is None else spans.exemplar_of(_step.traced[0][1])


def end() -> None:
    """Record the spans of the step: it is committed."""
    global _step
    step, _step = _step, None
    if step is None:
        return
    loss.lost(max(0, len(step.traced) - MOST_RECORDS), "step")
    times = step.began, time.time_ns()
    by_topic: dict[str, list[tuple[Record, SpanContext]]] = {}
    for each in step.traced[:MOST_RECORDS]:
        by_topic.setdefault(each[0].topic, []).append(each)
    for topic, traced in by_topic.items():
        batch = _poll(step, topic, traced, times)
        for record, context in traced:
            _process(step, record, context, batch, times)


def _poll(
    step: _Step, topic: str, traced: Sequence[tuple[Record, SpanContext]], times: tuple[int, int]
) -> list[Link]:
    links = [Link(context) for _, context in traced[: spans.MOST_LINKS]]
    attributes = names.polling(topic, step.stage, step.counts[topic])
    context = spans.record(None, names.poll(topic), attributes, spans.CLIENT, times, links)
    return [] if context is None else [Link(context, {names.LINK: names.BATCH})]


def _process(
    step: _Step, record: Record, context: SpanContext, batch: list[Link], times: tuple[int, int]
) -> None:
    marks = dict(step.marks.get((record.topic, record.partition, record.offset), {}))
    error = marks.pop(names.ERROR_TYPE, None)
    attributes = names.processing(
        record.topic, step.stage, partition=record.partition, offset=record.offset
    )
    spans.record(
        context,
        names.process(record.topic),
        attributes | marks,
        spans.CONSUMER,
        times,
        batch,
        error=None if error is None else str(error),
    )


def _trace(record: Record) -> SpanContext | None:
    headers = record[6]  # type: ignore[index]
    if not headers:
        return None
    name, value = headers[0]  # the ingress writes the trace first
    if name == "traceparent" and (not value or value[-1] not in _SAMPLED):
        return None
    context = carried.context_of(traceparent(headers))
    return context if context is not None and context.trace_flags.sampled else None
