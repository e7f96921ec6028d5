"""Dedup: each event once within the window, judged by the append times of its records."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import starved_dedup
from support.recorded_spans import SAMPLED, recording

from streams import dedup
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE
from streams.serde.ids import fingerprint
from streams.serde.records import Cancel, Command, Envelope, PayloadRef
from streams.topology.load import load

TOPOLOGY = load()
WINDOW = TOPOLOGY.window_ms
HEADERS = [("ce_id", b"evt_1"), ("traceparent", b"00-ab-cd-01")]


def envelope(dedup_key: str, tenant: str = "acme", delivery: int = 0) -> bytes:
    return ENVELOPE.encode(
        Envelope(
            fingerprint=fingerprint(tenant, "zendesk", dedup_key),
            event_id=f"evt_{delivery}",
            source="zendesk",
            tenant_id=tenant,
            event_type="ticket.updated",
            occurred_at=None,
            received_at=1,
            payload_hash=b"\0" * 32,
            dedup_key=dedup_key,
            subject=None,
            content_type="application/json",
            delivery_id=None,
            request_id=None,
            payload_ref=PayloadRef(0, (1,), 10, "kek"),
            attributes={},
            priority="webhook",
        )
    )


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([dedup.stage(TOPOLOGY)], TOPOLOGY)


def deliver(driver: TopologyTestDriver, key: str, at: int, delivery: int = 0) -> None:
    driver.pipe("events.received", b"acme", envelope(key, delivery=delivery), timestamp=at)


def test_the_first_delivery_goes_on_unchanged(driver: TopologyTestDriver) -> None:
    value = envelope("t1")
    driver.pipe("events.received", b"acme", value, partition=2, timestamp=77, headers=HEADERS)
    (record,) = driver.output("events")
    assert (record.partition, record.key, record.value) == (2, b"acme", value)
    assert record.timestamp == 77
    assert list(record.headers) == HEADERS


def test_a_redelivery_is_dropped_whatever_else_it_carries(driver: TopologyTestDriver) -> None:
    for delivery in range(3):
        deliver(driver, "t1", START_MS + delivery, delivery)
    deliver(driver, "t2", START_MS)
    assert len(driver.output("events")) == 2


def test_redeliveries_in_one_batch_are_dropped_too(driver: TopologyTestDriver) -> None:
    deliver(driver, "t0", START_MS)
    with driver.together():
        for key in ("t1", "t1", "t0", "t2", "t1"):
            deliver(driver, key, START_MS)
    assert [record.value for record in driver.output("events")] == [
        envelope(key) for key in ("t0", "t1", "t2")
    ]


def test_one_poison_record_in_a_batch_is_the_only_one_lost(driver: TopologyTestDriver) -> None:
    with driver.together():
        deliver(driver, "t1", START_MS)
        driver.pipe("events.received", b"acme", b"broken", timestamp=START_MS)
        deliver(driver, "t1", START_MS)
        deliver(driver, "t2", START_MS)
    assert len(driver.output("events")) == 2
    assert len(driver.output("dlq")) == 1


def test_another_tenants_equal_key_is_another_event(driver: TopologyTestDriver) -> None:
    for tenant in ("acme", "globex"):
        driver.pipe("events.received", tenant.encode(), envelope("t1", tenant))
    assert [record.key for record in driver.output("events")] == [b"acme", b"globex"]


def test_the_window_is_fixed_and_exact(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS)
    deliver(driver, "t1", START_MS + WINDOW - 2)
    deliver(driver, "t1", START_MS + WINDOW - 1)
    assert len(driver.output("events")) == 1, "a duplicate within the window went on"
    deliver(driver, "t1", START_MS + WINDOW)
    assert len(driver.output("events")) == 2, "a duplicate extended the window"
    deliver(driver, "t1", START_MS + WINDOW + 1)
    assert len(driver.output("events")) == 2


def test_the_wall_clock_decides_nothing(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS)
    driver.advance(WINDOW / 1000 * 3)
    deliver(driver, "t1", START_MS + 5)
    assert len(driver.output("events")) == 1


def test_a_clock_that_steps_back_expires_nothing(driver: TopologyTestDriver) -> None:
    deliver(driver, "late", START_MS + 10 * WINDOW)
    for _ in range(2):
        deliver(driver, "t1", START_MS)
    assert len(driver.output("events")) == 2


@pytest.mark.parametrize("together", [True, False])
def test_what_is_read_again_after_a_window_hides_no_later_delivery(
    driver: TopologyTestDriver, *, together: bool
) -> None:
    """The group's offsets were lost: the log is read from its beginning."""
    later = START_MS + WINDOW
    deliver(driver, "other", later + 5)
    with driver.together() if together else nullcontext():
        for at in (START_MS, START_MS + 1, later + 6, later + 7, later + 8):
            deliver(driver, "t1", at)
    forwarded = [record.timestamp for record in driver.output("events")]
    assert forwarded == [later + 5, START_MS, later + 6]


@pytest.mark.parametrize("at", ["before_commit", "after_commit", "after_write"])
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_crash_and_a_lost_disk_neither_lose_nor_repeat(
    driver: TopologyTestDriver, at: CrashPoint, keep_state: bool
) -> None:
    deliver(driver, "t1", START_MS)
    driver.crash("dedup", at)
    for key in ("t2", "t1", "t2"):
        deliver(driver, key, START_MS + 1)
    driver.restart("dedup", keep_state=keep_state)
    for key in ("t1", "t2"):
        deliver(driver, key, START_MS + 2)
    assert [record.value for record in driver.output("events")] == [envelope("t1"), envelope("t2")]


BAD = [
    b"",
    envelope("x")[:5],
    ENVELOPE.encode(ENVELOPE.decode(envelope("x")))[1:],
    b"{}" * 40,
    COMMAND.encode(Command("c" * 40, "acme", "job_1", 0, 1, Cancel("asked", None))),
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_what_is_no_envelope_becomes_a_dead_letter_and_the_rest_goes_on(
    driver: TopologyTestDriver, bad: bytes
) -> None:
    deliver(driver, "t1", START_MS)
    driver.pipe("events.received", b"acme", bad)
    deliver(driver, "t1", START_MS)
    deliver(driver, "t2", START_MS)
    assert len(driver.output("events")) == 2
    (letter,) = (DEAD_LETTER.decode(record.value) for record in driver.output("dlq"))
    assert (letter.id, letter.reason) == ("dedup:events.received:0:1", "undecodable")


DELIVERIES = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, WINDOW // 2)), min_size=1, max_size=40
)


@settings(max_examples=40)
@given(deliveries=DELIVERIES, crashes=st.sets(st.integers(0, 39)))
def test_what_goes_on_is_what_a_plain_model_says(
    deliveries: list[tuple[str, int]], crashes: set[int]
) -> None:
    driver = TopologyTestDriver([dedup.stage(TOPOLOGY)], TOPOLOGY, partitions=1)
    seen: dict[str, int] = {}
    expected, now = [], START_MS
    for i, (key, gap) in enumerate(deliveries):
        now += gap
        if i in crashes:
            driver.restart("dedup")
        deliver(driver, key, now)
        if key not in seen or now - seen[key] >= WINDOW:
            seen[key] = now
            expected.append((envelope(key), now))
    assert [(record.value, record.timestamp) for record in driver.output("events")] == expected


def test_a_process_without_descriptors_loses_no_event(tmp_path: Path) -> None:
    """A store that cannot open its files says nothing of the records that are looked up in it."""
    program = Path(starved_dedup.__file__)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert "stage dedup cannot go on at events.received-0@80: " in told["failed"]
    assert "Too many open files: raise the limit on open files" in told["failed"]
    assert "SET_ASIDE" not in told["failed"]
    assert told["starved"] == [told["before"], 0], "something was committed"
    assert (told["events"], told["dlq"]) == (told["before"] + 10, 0)


def test_a_traced_delivery_shows_whether_it_repeats_another(driver: TopologyTestDriver) -> None:
    headers = [("traceparent", SAMPLED.encode())]
    with recording() as found:
        for delivery in range(2):
            value = envelope("a", delivery=delivery)
            driver.pipe("events.received", b"acme", value, headers=headers)
    marks = [
        (span.attributes or {}).get("tidegate.duplicate")
        for span in found.named("process events.received")
    ]
    assert marks == [None, True]
    assert driver.output("events")[0].headers == headers


def test_a_poison_record_shows_why(driver: TopologyTestDriver) -> None:
    with recording() as found:
        driver.pipe(
            "events.received", b"acme", b"poison", headers=[("traceparent", SAMPLED.encode())]
        )
    span = found.only("process events.received")
    assert (span.attributes or {})["error.type"] == "undecodable"
