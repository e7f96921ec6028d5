"""Letters, dead keys and refused outputs, where records may be handed over in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.returning import give_back, letters

from streams.errors import PoisonRecord
from streams.runtime.dead_keys import _PREFIX
from streams.runtime.driver import TopologyTestDriver
from streams.runtime.processor import BatchProcessor, Context, Processor, Record
from streams.runtime.stage import AnyStage, FusedStage, declared_stage
from streams.serde.keys import after
from streams.serde.records import DeadLetter
from streams.topology.model import StageDeclaration, StoreDeclaration, Topic, Topology

STORE = StoreDeclaration("shelf", "keeper.shelf.changelog")
TOPICS = {
    name: Topic(name, 1, "compact" if name in ("settings", STORE.changelog) else "delete")
    for name in ("raw", "settings", "orders", "facts", "told", "dlq", STORE.changelog)
}
READS = ("settings", "orders", "facts")
TOPOLOGY = Topology(
    partitions=1,
    window_ms=1_000,
    topics=TOPICS,
    stages={
        "maker": StageDeclaration("maker", ("raw",), ("settings", "dlq")),
        "keeper": StageDeclaration("keeper", READS, ("told", "dlq"), (STORE,)),
    },
    priorities={},
    pools=(),
    job_types={},
    routes=(),
    limits=(),
    finished_jobs_ms=0,
)
NARROW = replace(TOPOLOGY, topics={**TOPICS, "told": Topic("told", 1, max_message_bytes=60)})


class Maker(Processor):
    def __init__(self, partition: int) -> None:
        """One instance serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        ctx.forward("settings", record.key, record.value)


class Keeper(Maker):
    """Keeps the newest value of each key, also in memory; it cannot read what is in `unread`."""

    unread: frozenset[bytes] = frozenset()
    kept: dict[bytes, bytes]

    def restored(self, ctx: Context) -> None:
        self.kept = dict(ctx.store("shelf").range(b"", b"\xff"))

    def process(self, record: Record, ctx: Context) -> None:
        value, key = record.value or b"", record.topic.encode() + b"/" + (record.key or b"")
        self.kept[key] = value
        ctx.store("shelf").put(key, value)
        ctx.forward("told", key, value)
        if value.partition(b":")[0] in self.unread:
            raise PoisonRecord("undecodable", "")

    def punctuate(self, now: int, ctx: Context) -> None:
        assert self.kept == dict(ctx.store("shelf").range(b"", b"\xff"))


class BatchKeeper(Keeper, BatchProcessor):
    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        for record in records:
            self.process(record, ctx)


@pytest.fixture(autouse=True)
def mended() -> Iterator[None]:
    yield
    Keeper.unread = frozenset()


def stages(keeper: type[Keeper], fused: bool) -> list[AnyStage]:
    maker = declared_stage(TOPOLOGY, "maker", Maker)
    parts = (maker, declared_stage(TOPOLOGY, "keeper", keeper))
    return [FusedStage("both", parts)] if fused else list(parts)


WRITES = st.tuples(
    st.sampled_from(["raw", "raw", "facts"]),
    st.sampled_from([b"a", b"b"]),
    st.sampled_from([b"plain", b"new", b"newer", b"long" * 20]),
)
ACTS = ["replay", "replay", "mend", "break", "narrow", "wide", "restart", "rebuild", "crash"]
STEPS = st.one_of(st.lists(WRITES, min_size=1, max_size=4), st.sampled_from(ACTS))


@settings(deadline=None, max_examples=150)
@given(
    st.lists(STEPS, min_size=5, max_size=20),
    st.randoms(use_true_random=False),
    st.booleans(),
    st.booleans(),
)
def test_what_is_kept_and_told_and_which_keys_are_dead_agrees_with_the_letters(
    steps: list[str | list[tuple[str, bytes, bytes]]], chance: Random, fused: bool, batches: bool
) -> None:
    Keeper.unread = frozenset({b"new"})
    driver = TopologyTestDriver(stages(BatchKeeper if batches else Keeper, fused), TOPOLOGY)
    for number, step in enumerate(steps):
        if isinstance(step, str):
            act(driver, step, chance)
        else:
            with driver.together():
                for place, (topic, key, value) in enumerate(step):
                    driver.pipe(topic, key, b"%s:%d.%d" % (value, number, place))
        driver.advance(0.1)
        check(driver)


def act(driver: TopologyTestDriver, what: str, chance: Random) -> None:
    if what == "replay":
        done = ("taken", "superseded")
        waiting = [each for each in letters(driver).values() if each.replay_outcome not in done]
        if waiting:
            give_back(driver, TOPOLOGY, chance.choice(waiting))
    elif what in ("mend", "break"):
        Keeper.unread = frozenset({b"new", b"newer"} if what == "break" else ())
    elif what in ("narrow", "wide"):
        driver._broker._topology = NARROW if what == "narrow" else TOPOLOGY
    elif what == "crash":
        driver.crash("keeper", chance.choice(["produced", "between_writes"]))
    else:
        driver.restart("keeper", keep_state=what == "restart")


def check(driver: TopologyTestDriver) -> None:
    """Compare all that the keeper did with its inputs and its letters."""
    known = letters(driver)
    assert all(each.replayed_at is None or each.replay_outcome for each in known.values())
    told = [(record.key, record.value) for record in driver.output("told")]
    read = [(record, known.get(_id(record))) for record in _inputs(driver)]
    lived = [(_key(record), record.value) for record, letter in read if _lived(letter)]
    assert sorted(told, key=str) == sorted(lived, key=str), "each once, and no dead one"
    own = [(r, letter) for r, letter in read if r.topic == "settings"]
    store = driver.store("keeper", "shelf")
    kept = {k: v for k, v in store.range(b"", b"\xff") if k.startswith(b"settings/")}
    assert kept == {_key(r): r.value for r, letter in own if _lived(letter)}
    newest = {r.key: letter for r, letter in own}
    dead = [key.rpartition(b"\0")[2] for key, _ in store.range(_PREFIX, after(_PREFIX))]
    assert dead == sorted(key or b"" for key, letter in newest.items() if not _lived(letter))
    positions = driver.task("keeper").positions
    assert positions == {topic: len(driver.output(topic)) for topic in READS}


def _inputs(driver: TopologyTestDriver) -> list[Record]:
    return [*driver.output("settings"), *driver.output("facts")]


def _id(record: Record) -> str:
    return f"keeper:{record.topic}:0:{record.offset}"


def _key(record: Record) -> bytes:
    return record.topic.encode() + b"/" + (record.key or b"")


def _lived(letter: DeadLetter | None) -> bool:
    return letter is None or letter.replay_outcome == "taken"
