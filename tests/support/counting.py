"""A small stage that counts keys, for tests of the runtime itself.

Input values say what to do: `count` adds one and forwards the count, `poison` writes, forwards
and then fails, `doubt` fails before it writes, `crash` raises what is no PoisonRecord, `lost`
forwards to an unknown topic, `huge` forwards what no client takes, `large` what a topic for small
records refuses, `tick` has the next punctuation forward the key, `time` forwards the stream time,
`skip` does nothing.
"""

from __future__ import annotations

import random
from dataclasses import replace

from streams.errors import PoisonRecord
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import FusedStage, Stage, StoreSpec
from streams.topology.model import (
    StageDeclaration,
    StoreDeclaration,
    Topic,
    Topology,
)

HUGE = 3_000_000
LARGE = random.Random(1).randbytes(600_000)
"""More than a topic for small records takes, compressed as well."""


class Counting(Processor):
    """Counts of keys in `counts`; `total` is derived, as a ready queue would be."""

    def __init__(self, partition: int) -> None:
        self.total = -1

    def restored(self, ctx: Context) -> None:
        self.total = sum(int(v) for _, v in ctx.store("counts").range(b"", b"\xff"))

    def process(self, record: Record, ctx: Context) -> None:
        key, verb = record.key or b"", record.value or b""
        if verb == b"skip":
            return
        counts = ctx.store("counts")
        self.total += 1
        if verb == b"doubt":
            raise PoisonRecord("bad_verb", "told to")
        count = b"%d" % (int(counts.get(key) or b"0") + 1)
        counts.put(key, count)
        ctx.forward("out", key, count, headers=[("total", b"%d" % self.total)])
        if verb == b"poison":
            raise PoisonRecord("bad_verb", "told to")
        if verb == b"crash":
            raise ZeroDivisionError("told to")
        if verb == b"lost":
            ctx.forward("nowhere", key, count)
        if verb == b"huge":
            ctx.forward("out", key, b"x" * HUGE)
        if verb == b"large":
            ctx.forward("out", key, LARGE)
        if verb == b"time":
            ctx.forward("out", b"time", b"%d" % ctx.stream_time)
        if verb == b"tick":
            counts.put(b"tick:" + key, b"0")

    def punctuate(self, now: int, ctx: Context) -> None:
        counts = ctx.store("counts")
        for key, _ in list(counts.range(b"tick:", b"tick;")):
            counts.delete(key)
            ctx.forward("out", key, b"%d" % now)


def counting_stage(punctuate_seconds: float = 0.1, inputs: tuple[str, ...] = ("in",)) -> Stage:
    return Stage(
        name="counting",
        inputs=inputs,
        stores=(StoreSpec("counts", "counting.counts.changelog"),),
        processor=Counting,
        punctuate_seconds=punctuate_seconds,
        writes=("out", "dlq"),
    )


class Passing(Processor):
    """Relays `raw` to `in`."""

    def __init__(self, partition: int) -> None:
        """It serves one partition."""

    def process(self, record: Record, ctx: Context) -> None:
        ctx.relay("in", [record])


def fused_stage() -> FusedStage:
    """What `raw` has is counted in the transaction that writes it to `in`."""
    passing = Stage("passing", ("raw",), (), Passing, writes=("in", "dlq"))
    return FusedStage("both", (passing, counting_stage()))


def fused_topology() -> Topology:
    topology = counting_topology()
    return replace(topology, topics={"raw": Topic("raw", 2), **topology.topics})


def counting_topology(partitions: int = 2, inputs: tuple[str, ...] = ("in",)) -> Topology:
    topics = [
        *(Topic(name, partitions) for name in inputs),
        Topic("out", partitions),
        Topic("counting.counts.changelog", partitions, cleanup="compact"),
        Topic("dlq", partitions),
        Topic("clock", partitions, timestamp="append"),
    ]
    declaration = StageDeclaration(
        "counting",
        inputs,
        ("out", "dlq"),
        (StoreDeclaration("counts", "counting.counts.changelog"),),
    )
    return Topology(
        partitions=partitions,
        window_ms=1_000,
        topics={topic.name: topic for topic in topics},
        stages={"counting": declaration},
        priorities={},
        pools=(),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=0,
    )
