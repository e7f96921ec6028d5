"""A replayed dead letter reaches its stage alone, and never overwrites what came after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.returning import give_back, letters, outcome

from streams import dead_letter
from streams.errors import PoisonRecord, StageFailed
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.processor import BatchProcessor, Context, Processor, Record
from streams.runtime.record_handler import taken_by
from streams.runtime.stage import Stage, declared_stage
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.topology.model import StageDeclaration, StoreDeclaration, Topic, Topology

POINTS: tuple[CrashPoint, ...] = get_args(CrashPoint)
STORE = StoreDeclaration("shelf", "keeper.shelf.changelog")
TOPICS = {
    name: Topic(name, 1, "compact" if name in ("settings", STORE.changelog) else "delete")
    for name in ("settings", "facts", "orders", "told", "dlq", STORE.changelog)
}
READS = ("settings", "facts", "orders")
TOPOLOGY = Topology(
    partitions=1,
    window_ms=1_000,
    topics=TOPICS,
    stages={
        "keeper": StageDeclaration("keeper", READS, ("told", "dlq"), (STORE,)),
        "reader": StageDeclaration("reader", ("settings", "facts"), ()),
    },
    priorities={},
    pools=(),
    job_types={},
    routes=(),
    limits=(),
    finished_jobs_ms=0,
)
SETTING, FACT = "keeper:settings:0:0", "keeper:facts:0:0"


class Keeper(Processor):
    """Keeps the newest value of each key, and tells it; it cannot read what is in `unread`."""

    unread: frozenset[bytes] = frozenset()
    broken = False

    def __init__(self, partition: int) -> None:
        """One instance serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        key = record.topic.encode() + b"/" + (record.key or b"")
        ctx.store("shelf").put(key, b"half done")
        if (record.value or b"") in self.unread:
            raise PoisonRecord("undecodable", f"cannot read {record.value!r}")
        if self.broken:
            raise RuntimeError("the disk is away")
        if record.value is None:
            ctx.store("shelf").delete(key)
        else:
            ctx.store("shelf").put(key, record.value)
        ctx.forward("told", key, record.value, timestamp=record.timestamp)


class BatchKeeper(Keeper, BatchProcessor):
    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        for record in records:
            self.process(record, ctx)


@pytest.fixture(params=[Keeper, BatchKeeper])
def keeper(request: pytest.FixtureRequest) -> Iterator[type[Keeper]]:
    made: type[Keeper] = request.param
    yield made
    Keeper.unread, Keeper.broken = frozenset(), False


@pytest.fixture
def driver(keeper: type[Keeper]) -> TopologyTestDriver:
    Keeper.unread = frozenset({b"new"})
    return TopologyTestDriver([stage(keeper)], TOPOLOGY)


def stage(keeper: type[Keeper]) -> Stage:
    return declared_stage(TOPOLOGY, "keeper", keeper)


def shelf(driver: TopologyTestDriver) -> dict[bytes, bytes]:
    return dict(driver.store("keeper", "shelf").range(b"", b"\xff"))


def told(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.output("told")]


def mend() -> None:
    Keeper.unread = frozenset()


def again(driver: TopologyTestDriver, id_: str) -> str | None:
    give_back(driver, TOPOLOGY, id_)
    return outcome(driver, id_)


def test_the_stage_takes_it_as_it_was_and_no_topic_has_it_twice(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("settings", b"a", b"new", timestamp=5)
    driver.pipe("facts", b"a", b"new", timestamp=6)
    driver.pipe("facts", b"a", b"old", timestamp=7)
    mend()
    assert (again(driver, SETTING), again(driver, FACT)) == ("taken", "taken")
    assert [(r.key, r.timestamp) for r in driver.output("told")] == [
        (b"facts/a", 7),
        (b"settings/a", 5),
        (b"facts/a", 6),
    ]
    assert (len(driver.output("settings")), len(driver.output("facts"))) == (1, 2)
    first, *_, last = map(DEAD_LETTER.decode, (r.value for r in driver.output("dlq")))
    assert last.replayed_at is not None
    assert replace(letters(driver)[SETTING], replayed_at=None, replay_outcome=None) == first


@pytest.mark.parametrize("newer", [b"other", None])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_came_after_it_stands_also_after_a_restore(
    driver: TopologyTestDriver, newer: bytes | None, restarts: bool
) -> None:
    driver.pipe("settings", b"a", b"new")
    if restarts:
        driver.restart("keeper")
    driver.pipe("settings", b"a", newer)
    before = shelf(driver)
    if restarts:
        driver.restart("keeper")
    mend()
    assert again(driver, SETTING) == "superseded"
    assert shelf(driver) == before
    assert len(driver.output("told")) == 1
    assert "write it again with its own call" in letters(driver)[SETTING].detail


def test_what_came_with_it_in_one_batch_counts_by_its_place(driver: TopologyTestDriver) -> None:
    Keeper.unread = frozenset({b"new", b"newer"})
    with driver.together():
        for key, value in [(b"a", b"new"), (b"a", b"old"), (b"b", b"old"), (b"b", b"newer")]:
            driver.pipe("settings", key, value)
    mend()
    assert again(driver, SETTING) == "superseded"
    assert again(driver, "keeper:settings:0:3") == "taken"
    assert shelf(driver) == {b"settings/a": b"old", b"settings/b": b"newer"}


def test_what_was_handed_over_in_memory_counts_when_its_record_is_read(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("settings", b"a", b"new")
    mend()
    with driver.together():
        driver.pipe("settings", b"a", b"old", headers=[taken_by("keeper")])
        give_back(driver, TOPOLOGY, SETTING)
    assert (outcome(driver, SETTING), told(driver)) == ("superseded", [])
    assert again(driver, SETTING) == "superseded"


def test_of_two_dead_records_of_a_key_the_newest_alone_is_taken(
    driver: TopologyTestDriver,
) -> None:
    Keeper.unread = frozenset({b"new", b"newer"})
    driver.pipe("settings", b"a", b"new")
    driver.pipe("settings", b"a", b"newer")
    mend()
    assert again(driver, SETTING) == "superseded"
    assert again(driver, "keeper:settings:0:1") == "taken"
    assert again(driver, "keeper:settings:0:1") == "superseded", "it was taken"
    assert shelf(driver) == {b"settings/a": b"newer"}


def test_one_that_dies_again_says_why_and_can_be_taken_later(driver: TopologyTestDriver) -> None:
    for topic, id_ in (("settings", SETTING), ("facts", FACT)):
        driver.pipe(topic, b"a", b"new")
        for _ in range(3):
            assert again(driver, id_) == "failed"
        letter = letters(driver)[id_]
        assert (letter.reason, letter.detail) == ("undecodable", "cannot read b'new'")
    assert (shelf(driver), len(letters(driver))) == ({}, 2)
    driver.restart("keeper")
    mend()
    assert (again(driver, SETTING), again(driver, FACT)) == ("taken", "taken")


def test_a_letter_with_another_value_than_the_dead_record_is_refused(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("settings", b"a", b"new")
    mend()
    give_back(driver, TOPOLOGY, letters(driver)[SETTING], value=b"forged")
    assert (outcome(driver, SETTING), shelf(driver)) == ("superseded", {})


def test_a_forged_letter_overwrites_nothing(driver: TopologyTestDriver) -> None:
    forged = DeadLetter(
        SETTING,
        "record",
        "",
        "undecodable",
        "",
        "keeper",
        1,
        "settings",
        0,
        0,
        b"a",
        b"old",
    )
    give_back(driver, TOPOLOGY, forged)
    assert (outcome(driver, SETTING), shelf(driver)) == ("superseded", {})
    fact = replace(forged, id=FACT, topic="facts")
    give_back(driver, TOPOLOGY, fact)
    assert outcome(driver, FACT) == "taken"
    (record,) = driver.output("told")
    assert record.timestamp == driver.now, "the time of the replay"


def test_a_tombstone_and_a_record_without_a_key_are_taken_as_they_were(
    keeper: type[Keeper],
) -> None:
    driver = TopologyTestDriver([stage(keeper)], TOPOLOGY)
    driver.pipe("settings", b"a", b"old")
    driver.set_aside.update({("settings", 0, 1), ("facts", 0, 0)})
    driver.restart("keeper", keep_state=True)
    driver.pipe("settings", b"a", None)
    driver.pipe("facts", None, b"old")
    driver.set_aside.clear()
    driver.restart("keeper", keep_state=True)
    assert again(driver, "keeper:settings:0:1") == "taken"
    assert again(driver, FACT) == "taken"
    assert shelf(driver) == {b"facts/": b"old"}


def test_one_that_ends_the_stage_can_be_set_aside_by_the_place_that_is_told(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("facts", b"a", b"new")
    mend()
    Keeper.broken = True
    with pytest.raises(StageFailed, match="TIDEGATE_SET_ASIDE=orders:0:0"):
        give_back(driver, TOPOLOGY, FACT)
    driver.set_aside.add(("orders", 0, 0))
    driver.restart("keeper", keep_state=True)
    driver.advance(1)
    assert (outcome(driver, FACT), letters(driver)[FACT].reason) == ("failed", "set_aside")
    Keeper.broken = False
    driver.pipe("orders", b"a", b"old")
    assert shelf(driver) == {b"orders/a": b"old"}


@pytest.mark.parametrize(
    "fields",
    [{"stage": "reader"}, {"topic": "told"}, {"partition": 1}],
    ids=["another stage", "no input", "another partition"],
)
def test_a_letter_that_is_not_the_stages_own_is_a_record_like_any_other(
    driver: TopologyTestDriver, fields: dict[str, str | int]
) -> None:
    driver.pipe("facts", b"a", b"new")
    mend()
    key, value, headers = dead_letter.returning(replace(letters(driver)[FACT], **fields))  # type: ignore[arg-type]
    driver.pipe("orders", key, value, headers=headers)
    driver.pipe("facts", key, value, headers=headers)
    assert shelf(driver) == {b"orders/" + key: value, b"facts/" + key: value}


@pytest.mark.parametrize("at", POINTS)
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_crash_at_any_step_neither_loses_nor_repeats_it(
    driver: TopologyTestDriver, at: CrashPoint, keep_state: bool
) -> None:
    driver.crash("keeper", at)
    driver.pipe("settings", b"a", b"new")
    driver.pipe("settings", b"b", b"new")
    if not keep_state:
        driver.restart("keeper")
    driver.pipe("settings", b"b", b"old")
    mend()
    for id_ in (SETTING, "keeper:settings:0:1"):
        driver.crash("keeper", at)
        give_back(driver, TOPOLOGY, id_)
        died = driver.run_of("keeper").commits.armed is None
        assert died or (at, outcome(driver, id_)) == ("between_writes", "superseded")
        driver.run_of("keeper").commits.armed = None
        if not keep_state:
            driver.restart("keeper")
    assert [outcome(driver, f"keeper:settings:0:{n}") for n in (0, 1)] == ["taken", "superseded"]
    assert shelf(driver) == {b"settings/a": b"new", b"settings/b": b"old"}
    assert told(driver) == [(b"settings/b", b"old"), (b"settings/a", b"new")]
    assert len(driver.output("dlq")) == 6, "two deaths, two replays, two answers"


def test_an_output_that_is_refused_is_answered_in_the_same_letter(
    driver: TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.pipe("settings", b"a", b"new")
    mend()
    monkeypatch.setitem(TOPICS, "told", Topic("told", 1, max_message_bytes=5))
    with driver.together():
        give_back(driver, TOPOLOGY, SETTING)
        driver.pipe("facts", b"long", b"old")
    assert (outcome(driver, SETTING), letters(driver)[SETTING].reason) == (
        "failed",
        "output_refused",
    )
    monkeypatch.setitem(TOPICS, "told", Topic("told", 1))
    assert again(driver, SETTING) == "taken"
    assert shelf(driver) == {b"settings/a": b"new"}


Step = tuple[str, bytes, bytes | None]
STEPS = st.one_of(
    st.tuples(
        st.just("write"),
        st.sampled_from([b"a", b"b"]),
        st.sampled_from([b"old", b"other", b"new", b"newer", None]),
    ),
    st.tuples(st.sampled_from(["replay", "restart", "rebuild", "mend"]), st.just(b""), st.none()),
    st.tuples(st.just("crash"), st.sampled_from([p.encode() for p in POINTS]), st.none()),
)


class Expected:
    """What the shelf has for each setting, and which letter is of the newest record of its key."""

    def __init__(self) -> None:
        self.shelf: dict[bytes, bytes] = {}
        self.newest: dict[bytes, str] = {}
        self.dead: list[tuple[str, bytes, bytes]] = []

    def write(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.newest.pop(key, None)
        if value is not None and value in Keeper.unread:
            id_ = f"keeper:settings:0:{offset}"
            self.newest[key] = id_
            self.dead.append((id_, key, value))
        else:
            self._set(key, value)

    def replay(self, id_: str, key: bytes, value: bytes) -> str:
        if self.newest.get(key) != id_:
            return "superseded"
        if value in Keeper.unread:
            return "failed"
        del self.newest[key]
        self._set(key, value)
        return "taken"

    def _set(self, key: bytes, value: bytes | None) -> None:
        self.shelf.pop(b"settings/" + key, None)
        if value is not None:
            self.shelf[b"settings/" + key] = value


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=25), st.randoms(use_true_random=False), st.booleans())
def test_the_newest_that_could_be_read_stands_whatever_happens(
    steps: list[Step], chance: Random, batches: bool
) -> None:
    Keeper.unread = frozenset({b"new", b"newer"})
    driver = TopologyTestDriver([stage(BatchKeeper if batches else Keeper)], TOPOLOGY)
    expected = Expected()
    for what, key, value in steps:
        if what == "write":
            expected.write(len(driver.output("settings")), key, value)
            driver.pipe("settings", key, value)
        elif what == "replay" and expected.dead:
            dead = chance.choice(expected.dead)
            answer = expected.replay(*dead)
            assert again(driver, dead[0]) == answer
        elif what == "crash":
            driver.crash("keeper", key.decode())  # type: ignore[arg-type]
        elif what in ("restart", "rebuild"):
            driver.restart("keeper", keep_state=what == "restart")
        elif what == "mend":
            Keeper.unread = frozenset({b"new"}) if b"newer" in Keeper.unread else frozenset()
    assert shelf(driver) == expected.shelf
    Keeper.unread = frozenset()
