"""What dropped duplicates leave behind: counts in the store, records, a line in the log."""

from __future__ import annotations

import struct
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from streams import dedup
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.processor import Record
from streams.serde.codec import DUPLICATE, ENVELOPE
from streams.serde.ids import fingerprint
from streams.serde.records import Duplicate
from streams.state.bundle import changes_in
from streams.topology.load import load

TOPOLOGY = load()
WINDOW = TOPOLOGY.window_ms
FRAME = struct.pack(">bI", 0, ENVELOPE.schema.id)


def of(key: str, tenant: str = "acme") -> bytes:
    return fingerprint(tenant, "zendesk", key)


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver([dedup.stage(TOPOLOGY)], TOPOLOGY)


def deliver(
    driver: TopologyTestDriver, key: str, at: int, event_id: str | None = None, tenant: str = "acme"
) -> None:
    source = f"/tenants/{tenant}/sources/zendesk".encode()
    named = [("ce_source", source), ("ce_type", b"t")]
    named += [("ce_id", event_id.encode())] if event_id else []
    value = FRAME + of(key, tenant) + b"the rest"
    driver.pipe("events.received", tenant.encode(), value, timestamp=at, headers=named)


def told(driver: TopologyTestDriver) -> list[Duplicate]:
    return [DUPLICATE.decode(record.value) for record in driver.output("duplicates")]


def dropped(count: int, first_at: int, last_at: int, last_event_id: str | None) -> Duplicate:
    return Duplicate("acme", count, first_at, last_at, last_event_id, "zendesk", "t")


def stored(driver: TopologyTestDriver, key: str) -> bytes | None:
    return driver.store("dedup", "seen").get(of(key))


def test_an_event_without_duplicates_leaves_when_it_came_and_no_more(
    driver: TopologyTestDriver,
) -> None:
    deliver(driver, "t1", START_MS)
    assert stored(driver, "t1") == struct.pack(">q", START_MS)
    assert driver.output("duplicates") == []


def test_a_duplicate_is_counted_and_told_under_its_fingerprint(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS, "evt_1")
    deliver(driver, "t1", START_MS + 5, "evt_2")
    deliver(driver, "t1", START_MS + 9, "evt_3")
    assert stored(driver, "t1") == struct.pack(">qIq", START_MS, 2, START_MS + 9)
    assert [(r.key, r.timestamp) for r in driver.output("duplicates")] == [
        (of("t1"), START_MS + 5),
        (of("t1"), START_MS + 9),
    ]
    assert told(driver) == [
        dropped(1, START_MS, START_MS + 5, "evt_2"),
        dropped(2, START_MS, START_MS + 9, "evt_3"),
    ]


def test_a_metric_counts_what_was_dropped(driver: TopologyTestDriver) -> None:
    def dropped() -> float:
        return REGISTRY.get_sample_value("tidegate_dedup_duplicates_total") or 0.0

    before = dropped()
    with driver.together():
        for late in range(3):
            deliver(driver, "t1", START_MS + late)
    assert dropped() == before + 2


def test_a_batch_makes_one_record_of_an_events_duplicates(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS)
    with driver.together():
        for at, key in enumerate(("t1", "t2", "t1", "t2", "t2", "t3")):
            deliver(driver, key, START_MS + at, f"evt_{at}")
    assert told(driver) == [
        dropped(2, START_MS, START_MS + 2, "evt_2"),
        dropped(2, START_MS + 1, START_MS + 4, "evt_4"),
    ]
    (_, bundle) = driver.output("dedup.seen.changelog")
    assert {key for key, _ in changes_in(bundle.key or b"", bundle.value)} == {
        of("t1"),
        of("t2"),
        of("t3"),
    }


def test_a_duplicate_is_filed_under_the_first_time(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS)
    deliver(driver, "t1", START_MS + WINDOW - 1)
    deliver(driver, "t2", START_MS + WINDOW)
    assert stored(driver, "t1") is None, "a duplicate kept its event in the store"


def test_the_next_window_counts_anew_also_within_a_batch(driver: TopologyTestDriver) -> None:
    deliver(driver, "t1", START_MS)
    with driver.together():
        for at in (1, WINDOW, WINDOW + 1, WINDOW + 2):
            deliver(driver, "t1", START_MS + at)
    assert len(driver.output("events")) == 2
    assert told(driver) == [
        dropped(1, START_MS, START_MS + 1, None),
        dropped(2, START_MS + WINDOW, START_MS + WINDOW + 2, None),
    ]


def test_entries_from_before_duplicates_were_counted_go_on(driver: TopologyTestDriver) -> None:
    log = driver._broker.records["dedup.seen.changelog", 0]
    old = struct.pack(">q", START_MS)
    log.append(Record("dedup.seen.changelog", 0, 0, START_MS, of("t1"), old))
    driver.restart("dedup")
    deliver(driver, "t1", START_MS + 1)
    assert driver.output("events") == []
    assert told(driver) == [dropped(1, START_MS, START_MS + 1, None)]


@pytest.mark.parametrize("broken", [b"\xff", b"evt_\xc3\xa9", None])
def test_what_is_no_text_loses_no_record(driver: TopologyTestDriver, broken: bytes | None) -> None:
    for _ in range(2):
        driver.pipe(
            "events.received",
            broken,
            FRAME + of("t1") + b"x",
            timestamp=START_MS,
            headers=[("ce_id", broken)],  # type: ignore[list-item]
        )
    (record,) = told(driver)
    assert (record.count, record.last_event_id) == (1, None)
    assert driver.output("dlq") == []


DELIVERIES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, WINDOW // 3)), min_size=1, max_size=40
)


@settings(max_examples=40)
@given(
    batches=st.lists(DELIVERIES, max_size=6),
    crashes=st.lists(
        st.sampled_from([None, "before_commit", "after_commit", "wiped"]), min_size=6, max_size=6
    ),
)
def test_counts_are_what_a_plain_model_says(
    batches: list[list[tuple[str, int]]], crashes: list[CrashPoint | Literal["wiped"] | None]
) -> None:
    driver = TopologyTestDriver([dedup.stage(TOPOLOGY)], TOPOLOGY, partitions=1)
    model: dict[str, list[int]] = {}
    duplicates: dict[tuple[str, int], tuple[int, int]] = {}
    now = START_MS
    for batch, crash in zip(batches, crashes, strict=False):
        if crash == "wiped":
            driver.restart("dedup")
        elif crash is not None:
            driver.crash("dedup", crash)
        with driver.together():
            for key, gap in batch:
                now += gap
                deliver(driver, key, now)
                if key not in model or now - model[key][0] >= WINDOW:
                    model[key] = [now, 0]
                else:
                    model[key][1] += 1
                    duplicates[key, model[key][0]] = model[key][1], now
    names = {of(key): key for key in "abc"}
    found = {
        (names[record.key or b""], each.first_at): (each.count, each.last_at)
        for record, each in zip(driver.output("duplicates"), told(driver), strict=True)
    }
    assert found == duplicates


def test_the_log_says_at_most_every_ten_seconds_what_was_dropped(
    driver: TopologyTestDriver,
) -> None:
    with capture_logs() as lines:
        deliver(driver, "t1", START_MS, "evt_1")
        driver.advance(20)
        assert lines == [], "no duplicate, but a line"
        deliver(driver, "t1", START_MS + 1, "evt_2")
        driver.advance(1)
        for at, tenant in enumerate(("globex", "globex", "initech", "initech", "initech")):
            deliver(driver, "t1", START_MS + 2 + at, f"evt_{3 + at}", tenant)
        driver.advance(8)
        assert len(lines) == 1
        driver.advance(60)
    first, second = lines
    assert first == {
        "event": "duplicates dropped",
        "log_level": "info",
        "dropped": 1,
        "tenant_id": "acme",
        "event_id": "evt_2",
        "fingerprint": of("t1").hex(),
        "first_seen": START_MS,
        "count": 1,
    }
    assert (second["dropped"], second["tenant_id"], second["count"]) == (3, "initech", 2)


def test_the_partitions_of_a_process_share_the_line(driver: TopologyTestDriver) -> None:
    with capture_logs() as lines:
        for partition in (0, 0, 1, 1, 2, 2):
            value = FRAME + of(str(partition)) + b"x"
            driver.pipe("events.received", b"acme", value, partition=partition)
        driver.advance(5)
    assert [line["dropped"] for line in lines] == [3]
