"""What a stage records of a batch: its traced records, and nothing of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.trace import StatusCode
from support.recorded_spans import SAMPLED, UNSAMPLED, context, linked, parent_id, recording

from streams.runtime.processor import Header, Record
from streams.tracing import conventions as names
from streams.tracing import loss, steps

TRACED: list[Header] = [("traceparent", SAMPLED.encode()), ("ce_id", b"evt_1")]


def record(offset: int, headers: Sequence[Header] = (), topic: str = "events") -> Record:
    return Record(topic, 2, offset, 0, b"acme", b"the body", headers)


def step(*records: Record) -> None:
    steps.begin("dedup", [records])
    steps.end()


def test_a_batch_and_its_traced_records_are_linked_to_each_other() -> None:
    other = SAMPLED.replace("a" * 32, "c" * 32).replace("b" * 16, "d" * 16)
    second: list[Header] = [("traceparent", other.encode())]
    with recording() as found:
        step(record(1, TRACED), record(2), record(3, second))
    batch, processed = found.only("poll events"), found.named("process events")
    assert batch.parent is None
    assert linked(batch) == [(int("b" * 16, 16), ""), (int("d" * 16, 16), "")]
    assert [parent_id(span) for span in processed] == [int("b" * 16, 16), int("d" * 16, 16)]
    assert {context(span).trace_id for span in processed} == {int("a" * 32, 16), int("c" * 32, 16)}
    assert [linked(span) for span in processed] == [[(context(batch).span_id, "batch")]] * 2
    assert (batch.attributes or {})[names.BATCH_COUNT] == 3
    assert dict(processed[0].attributes or {}) == {
        names.SYSTEM: "kafka",
        names.OPERATION_NAME: "process",
        names.OPERATION_TYPE: "process",
        names.DESTINATION: "events",
        names.PARTITION: "2",
        names.OFFSET: 1,
        names.GROUP: "dedup",
    }
    assert "the body" not in found.text()


def test_each_topic_of_a_step_has_a_batch() -> None:
    with recording() as found:
        step(record(1, TRACED), record(2, TRACED, "jobs.commands"), record(3, (), "tenants"))
    assert sorted(found.names) == [
        "poll events",
        "poll jobs.commands",
        "process events",
        "process jobs.commands",
    ]


@pytest.mark.parametrize(
    "headers",
    [
        (),
        [("traceparent", UNSAMPLED.encode())],
        [("traceparent", b"")],
        [("traceparent", b"1")],
        [("traceparent", b"\xff1")],
        [("ce_id", b"evt_1")],
        [("other", SAMPLED.encode())],
        [("traceparent", f"00-{'0' * 32}-{'b' * 16}-01".encode())],
    ],
)
def test_other_records_leave_no_trace(headers: Sequence[Header]) -> None:
    with recording() as found:
        step(record(1, headers))
        assert steps.exemplar() is None
    assert found.all == []


def test_the_trace_is_found_behind_other_headers_too() -> None:
    with recording() as found:
        step(record(1, [("ce_id", b"evt_1"), ("traceparent", SAMPLED.encode())]))
    assert found.names == ["poll events", "process events"]


def test_a_step_that_is_not_committed_is_forgotten() -> None:
    with recording() as found:
        steps.begin("dedup", [[record(1, TRACED)]])
        assert steps.exemplar() == {"trace_id": "a" * 32, "span_id": "b" * 16}
        steps.begin("dedup", [[record(2)]])
        steps.end()
        steps.end()
    assert found.all == []


def test_a_marked_record_shows_its_mark_and_an_error_is_one() -> None:
    good, bad = record(1, TRACED), record(2, TRACED)
    with recording() as found:
        steps.begin("dedup", [[good, bad]])
        steps.mark([good, record(3)], names.DUPLICATE, True)
        steps.mark([bad], names.ERROR_TYPE, "undecodable")
        steps.end()
    first, second = found.named("process events")
    assert (first.attributes or {})[names.DUPLICATE] is True
    assert first.status.status_code is StatusCode.UNSET
    assert (second.attributes or {})[names.ERROR_TYPE] == "undecodable"
    assert second.status.status_code is StatusCode.ERROR


def test_a_step_records_a_bounded_number_and_counts_the_rest() -> None:
    before = loss.LOST.labels("step")._value.get()
    with recording() as found:
        step(*(record(offset, TRACED) for offset in range(steps.MOST_RECORDS + 3)))
    assert len(found.named("process events")) == steps.MOST_RECORDS
    assert len(found.only("poll events").links) == 128
    assert loss.LOST.labels("step")._value.get() - before == 3


def test_while_traces_are_off_headers_are_not_looked_at() -> None:
    class Untouched(list[Header]):
        def __bool__(self) -> bool:
            raise AssertionError("looked at")

    step(record(1, Untouched()))
