"""A letter that nobody's stage left, or that comes back at a bad moment, harms nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from support.dispatching import ROUTES, Desk, envelope
from support.returning import give_back, letters, outcome

from streams import dead_letter, pipeline
from streams.errors import PoisonRecord, StageFailed
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde.codec import ENVELOPE
from streams.serde.records import DeadLetter
from streams.serde.sizes import MAX_LETTER_KEY_BYTES, MAX_LETTER_VALUE_BYTES
from streams.state.memory import MemoryTables
from streams.topology.load import load
from streams.topology.model import StageDeclaration, StoreDeclaration, Topic, Topology

DAY = 86_400
EVER = 253_000_000_000_000
FLOW = replace(load(), routes=ROUTES)


def forged(stage: str, topic: str, value: bytes, **fields: Any) -> DeadLetter:
    letter = DeadLetter(
        f"{stage}:{topic}:0:0",
        "record",
        "",
        "undecodable",
        "",
        stage,
        1,
        topic,
        0,
        0,
        b"acme",
        value,
        timestamp=1,
    )
    return replace(letter, **fields)


@pytest.mark.parametrize("at", [EVER, -EVER, -(2**62), 2**62])
@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize("type_", ["ticket.created", "unrouted"])
def test_a_letters_time_is_never_later_than_its_return_nor_before_all_time(
    at: int, type_: str, routed: bool
) -> None:
    """Otherwise a writer of the input could move the stage's time, or end the stage for good."""
    driver = TopologyTestDriver([pipeline.stage(FLOW)], FLOW, partitions=1)
    event = ENVELOPE.encode(replace(envelope("acme", "1", type_), routed=routed))
    for stage, topic in (("dedup", "events.received"), ("dispatcher", "events")):
        give_back(driver, FLOW, forged(stage, topic, event, timestamp=at))
    driver.advance(10 * DAY)
    assert driver.task("dispatcher").ctx.stream_time <= driver.now
    (event_,) = driver.output("events")
    assert 0 < event_.timestamp <= driver.now


class Broken(Processor):
    """A processor with a bug."""

    def process(self, record: Record, ctx: Context) -> None:
        raise RuntimeError("a bug")


def test_one_without_an_offset_that_ends_the_stage_can_be_set_aside() -> None:
    desk = Desk()
    event = ENVELOPE.encode(envelope("acme", "1", "ticket.created"))

    run = desk.driver.run_of("dispatcher")
    run.stage = replace(cast(Stage, run.stage), processor=lambda _: Broken())
    run.start()
    with pytest.raises(StageFailed, match=r"TIDEGATE_SET_ASIDE=jobs\.commands:0:0"):
        give_back(desk.driver, desk.topology, forged("dispatcher", "events", event, offset=None))


STORE = StoreDeclaration("shelf", "keeper.shelf.changelog")
TOPICS = {
    name: Topic(name, 1, "compact" if name in ("settings", STORE.changelog) else "delete")
    for name in ("settings", "orders", "dlq", STORE.changelog)
}


def topology(*others: str) -> Topology:
    """`others` are what another stage reads, too."""
    stages = {"keeper": StageDeclaration("keeper", ("settings", "orders"), ("dlq",), (STORE,))}
    if others:
        stages["reader"] = StageDeclaration("reader", others, ())
    return Topology(
        partitions=1,
        window_ms=1_000,
        topics=TOPICS,
        stages=stages,
        priorities={},
        pools=(),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=0,
    )


class Keeper(Processor):
    """Keeps the newest value of each key; it cannot read what begins with `unread`."""

    unread = b"new"

    def __init__(self, partition: int) -> None:
        """One instance serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        if self.unread and (record.value or b"").startswith(self.unread):
            raise PoisonRecord("undecodable", "")
        ctx.store("shelf").put(record.key or b"", record.value or b"")


class Counting(MemoryTables):
    """Counts the entries that ranges yield."""

    ranged = 0

    def range(self, table: int, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for entry in super().range(table, start, end):
            self.ranged += 1
            yield entry


@pytest.fixture(autouse=True)
def mended() -> Iterator[None]:
    yield
    Keeper.unread = b"new"


def keeping(topology: Topology, tables: MemoryTables | None = None) -> TopologyTestDriver:
    kept = tables or MemoryTables()
    stage = declared_stage(topology, "keeper", Keeper)
    return TopologyTestDriver([stage], topology, open_tables=lambda *_: kept)


def test_a_poison_record_costs_no_look_at_other_dead_keys() -> None:
    tables = Counting()
    driver = keeping(topology(), tables)
    for part in range(3):
        with driver.together():
            for n in range(100):
                driver.pipe("settings", b"%d" % (100 * part + n), b"new")
    assert len(letters(driver)) == 300
    driver.restart("keeper", keep_state=True)
    assert tables.ranged <= 3
    Keeper.unread = b""
    give_back(driver, topology(), "keeper:settings:0:7")
    assert outcome(driver, "keeper:settings:0:7") == "taken"


def test_a_stage_without_an_input_of_its_own_for_a_while_forgets_no_newer_record() -> None:
    """Another stage reads `orders` for a while, so that no letter could come back on it."""
    tables = MemoryTables()
    driver = keeping(topology(), tables)
    driver.pipe("settings", b"a", b"new")
    driver.run_of("keeper").stage = declared_stage(topology("orders"), "keeper", Keeper)
    driver.restart("keeper", keep_state=True)
    driver.pipe("settings", b"a", b"old")
    driver.run_of("keeper").stage = declared_stage(topology(), "keeper", Keeper)
    driver.restart("keeper", keep_state=True)
    Keeper.unread = b""
    give_back(driver, topology(), "keeper:settings:0:0")
    assert outcome(driver, "keeper:settings:0:0") == "superseded"
    assert driver.store("keeper", "shelf").get(b"a") == b"old"


def test_one_that_was_discarded_waits_again_once_it_is_dead_again() -> None:
    driver = keeping(topology())
    driver.pipe("settings", b"a", b"new")
    discarded: dict[str, Any] = {"discarded_at": 1, "discarded_by": "ops", "discard_note": "no"}
    give_back(driver, topology(), "keeper:settings:0:0", **discarded)
    letter = letters(driver)["keeper:settings:0:0"]
    assert (letter.replay_outcome, letter.discarded_at) == ("failed", None)
    Keeper.unread = b""
    give_back(driver, topology(), letter, **discarded)
    letter = letters(driver)["keeper:settings:0:0"]
    assert (letter.replay_outcome, letter.discard_note) == ("taken", "no")


def test_what_a_person_was_to_do_by_hand_waits_again_once_it_is_dead_again() -> None:
    driver = keeping(topology())
    driver.pipe("settings", b"a", b"new")
    manual: dict[str, Any] = {
        "manual_at": 1,
        "manual_by": "ops",
        "manual_note": "write it by hand",
        "assignee": "ann",
        "done_at": 2,
        "done_by": "ann",
        "done_note": "written",
    }
    give_back(driver, topology(), "keeper:settings:0:0", **manual)
    letter = letters(driver)["keeper:settings:0:0"]
    assert letter.replay_outcome == "failed"
    assert {name: getattr(letter, name) for name in manual} == dict.fromkeys(manual)


@pytest.mark.parametrize(
    "fields",
    [
        {"value": b"x" * 1_048_000},
        {"note": "x" * 1_048_000},
        {"id": "x" * 600_000},
        {"value": b"x" * 1_048_000, "topic": "settings"},
    ],
    ids=["value", "note", "id", "superseded"],
)
def test_a_letter_that_dlq_would_not_take_with_its_answer_is_a_record_like_any_other(
    fields: dict[str, Any],
) -> None:
    """The stage could neither answer it nor go on, for as long as the input has it."""
    driver = keeping(topology())
    letter = replace(forged("keeper", "orders", b"old"), **fields)
    _, value, headers = dead_letter.returning(letter)
    driver.pipe("orders", b"acme", value, headers=headers)
    assert driver.store("keeper", "shelf").get(b"acme") == value
    assert driver.output("dlq") == []


def test_the_largest_letter_with_the_longest_note_comes_back() -> None:
    driver = keeping(topology())
    headers = [(f"h{n}", b"x" * 1_000) for n in range(8)]
    value = b"new" + b"x" * (MAX_LETTER_VALUE_BYTES - 3)
    driver.pipe("settings", b"k" * MAX_LETTER_KEY_BYTES, value, headers=headers)
    note = "\N{GRINNING FACE}" * 1_024
    by = "x" * 1_024
    discarded: dict[str, Any] = {"discarded_at": 1, "discard_note": note, "note": note}
    discarded |= {"manual_at": 1, "manual_by": by, "manual_note": note, "assignee": by[:255]}
    discarded |= {"done_at": 1, "done_by": by, "done_note": note}
    give_back(driver, topology(), "keeper:settings:0:0", detail="x" * 2_048, **discarded)
    assert outcome(driver, "keeper:settings:0:0") == "failed"
    give_back(driver, topology(), "keeper:settings:0:0", value=b"y" + value[1:], **discarded)
    assert outcome(driver, "keeper:settings:0:0") == "superseded"
