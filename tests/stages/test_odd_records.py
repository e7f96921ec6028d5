"""Whatever stands on its inputs, a stage goes on: what it cannot take becomes a dead letter.

Only a `PoisonRecord` costs a record, and any other exception ends the stage. So no content of a
record may raise anything else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.delivering import Deliveries
from support.dispatching import envelope, topology
from support.odd_records import (
    BYTES,
    HEADERS,
    KEYS,
    KNOWN_JOB,
    LONGS,
    SETTING_KEYS,
    TEXTS,
    broken,
    framed,
)

from streams import dead_letter, dedup, dispatcher, scheduler
from streams.delivery.stage import stage
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.runtime.stage import Stage
from streams.serde.codec import DEAD_LETTER, ENVELOPE
from streams.serde.records import DeadLetter

TOPOLOGY = topology()
TIMES = st.sampled_from([START_MS, START_MS - 30 * 86_400_000, START_MS + 3_600_000, 0])


def odd(topic: str, name: str, **apt: str) -> st.SearchStrategy[tuple[Any, ...]]:
    values = framed(name, **apt) | framed(name, **apt) | framed(name) | broken(name) | BYTES
    keys = KEYS | SETTING_KEYS if topic == "tenants" else KEYS
    return st.tuples(st.just(topic), keys, values, HEADERS, TIMES)


def returning(stage: str, record: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[Any]:
    """The odd record of an input, brought back in a letter that nobody's operator wrote."""
    own = TOPOLOGY.letter_input(stage) or ""
    return st.builds(
        partial(carrier, stage, own),
        record,
        st.none() | LONGS,
        st.none() | LONGS,
        st.dictionaries(TEXTS, BYTES, max_size=3),
        TEXTS,
        st.none() | TEXTS,
    )


def carrier(
    stage: str,
    own: str,
    record: tuple[Any, ...],
    offset: int | None,
    at: int | None,
    headers: dict[str, bytes],
    text: str,
    trace: str | None,
) -> tuple[Any, ...]:
    topic, key, value, _, read_at = record
    letter = DeadLetter(
        f"{stage}:{text}",
        "record",
        text,
        text,
        text,
        stage,
        1,
        topic,
        0,
        offset,
        key,
        value,
        traceparent=trace,
        timestamp=at,
        headers=headers,
        note=text,
        replay_outcome="failed",
    )
    key, value, marks = dead_letter.returning(letter)
    return own, key, value, marks, read_at


def goes_on(stage: Stage, records: list[tuple[Any, ...]], together: bool) -> None:
    driver = TopologyTestDriver([replace(stage, punctuate_seconds=1.0)], TOPOLOGY, partitions=1)
    if "events" in stage.inputs:
        driver.advance(2)
        driver.pipe("events", b"acme", ENVELOPE.encode(envelope("acme", "known", "ticket.refund")))
    if together:
        with driver.together():
            pipe(driver, records)
    else:
        pipe(driver, records)
    driver.advance(70)
    task = driver.task(stage.name)
    for topic in stage.inputs:
        assert task.positions[topic] == len(driver.output(topic))
    letters = [DEAD_LETTER.decode(letter.value) for letter in driver.output("dlq")]
    assert {letter.topic for letter in letters if letter.kind == "record"} <= set(stage.inputs)


def pipe(driver: TopologyTestDriver, records: list[tuple[Any, ...]]) -> None:
    for topic, key, value, headers, at in records:
        driver.pipe(topic, key, value, headers=headers, timestamp=at)


def odd_or_returning(
    stage: str, *records: st.SearchStrategy[tuple[Any, ...]]
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    every = st.one_of(*records)
    return st.lists(every | every | returning(stage, every), max_size=6)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(odd_or_returning("dedup", odd("events.received", "envelope")), st.booleans())
def test_dedup(records: list[tuple[Any, ...]], together: bool) -> None:
    goes_on(dedup.stage(TOPOLOGY), records, together)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(odd_or_returning("scheduler", odd("schedule", "schedule")), st.booleans())
def test_scheduler(records: list[tuple[Any, ...]], together: bool) -> None:
    goes_on(scheduler.stage(TOPOLOGY), records, together)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(
    odd_or_returning(
        "dispatcher",
        odd("events", "envelope", tenant_id="acme", source="zendesk", event_type="ticket.refund"),
        odd("jobs.commands", "command", tenant_id="acme", job_id=KNOWN_JOB),
        odd("duplicates", "duplicate", tenant_id="acme"),
        odd("tenants", "tenant", tenant_id="acme"),
    ),
    st.booleans(),
)
def test_dispatcher(records: list[tuple[Any, ...]], together: bool) -> None:
    goes_on(dispatcher.stage(TOPOLOGY), records, together)


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(
    odd_or_returning(
        "delivery",
        odd("events", "envelope", tenant_id="acme"),
        odd("jobs", "job", tenant_id="acme"),
        odd("approvals", "approval", tenant_id="acme", status="pending"),
        odd("deliveries.commands", "delivery_command", tenant_id="acme", endpoint_id="crm"),
        odd("tenants", "tenant", tenant_id="acme", id="crm"),
    ),
    st.booleans(),
)
def test_delivery(records: list[tuple[Any, ...]], together: bool) -> None:
    scripted = Deliveries()
    goes_on(stage(TOPOLOGY, scripted.sender, scripted.history), records, together)
