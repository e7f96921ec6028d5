"""A small stage with a link, for tests of the runtime itself.

It counts what each worker sends, in `counts`, and answers over the link. Values say what to do, as
those of `counting` do: `count` adds one and answers the count, `poison` fails after that, `rude` is
poison that has no answer, `huge` forwards what no broker takes, `idle` changes nothing, `crash`
raises what is no PoisonRecord, and `no disk` what no record causes. A record of the topic `in` is
answered to the worker in its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streams.errors import PoisonRecord
from streams.runtime.link import LINK, Rights
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import FusedStage, Stage
from streams.serde.records import Handler
from streams.topology.model import Topology
from support.counting import HUGE, Passing, counting_stage, fused_topology


class Roster:
    """`Workers` that notes what it was told; `calls` are the calls in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def connected(
        self,
        worker_id: str,
        pool: str,
        handlers: Sequence[Handler],
        rights: Rights,
    ) -> None:
        types = tuple(handler.type for handler in handlers)
        self.calls.append(("connected", worker_id, pool, types, rights.tenants))

    def heard(self, worker_id: str, beat: int, limit: int, draining: bool, now: float) -> None:
        self.calls.append(("heard", worker_id, beat, limit, draining, now))

    def gone(self, worker_id: str) -> None:
        self.calls.append(("gone", worker_id))


class Answering(Processor):
    """Counts by worker in `counts`, of which `seen` is a copy that must never differ."""

    def __init__(self, partition: int) -> None:
        self.seen: dict[bytes, bytes] = {}

    def restored(self, ctx: Context) -> None:
        self.seen = dict(ctx.store("counts").range(b"", b"\xff"))

    def process(self, record: Record, ctx: Context) -> None:
        if record.topic != LINK:
            ctx.forward(LINK, record.value, b"told")
            return
        key, verb = record.key or b"", record.value or b""
        if verb == b"idle":
            return
        counts = ctx.store("counts")
        assert counts.get(key) == self.seen.get(key)
        count = b"%d" % (int(counts.get(key) or b"0") + 1)
        counts.put(key, count)
        self.seen[key] = count
        ctx.forward(LINK, key, count)
        if verb in (b"poison", b"rude"):
            raise PoisonRecord("bad_verb", verb.decode())
        if verb == b"huge":
            ctx.forward("out", key, b"x" * HUGE)
        if verb == b"crash":
            raise ZeroDivisionError("told to")
        if verb == b"no disk":
            raise OSError("No space left on device")

    def answer(self, record: Record, poison: PoisonRecord, ctx: Context) -> bool:
        if poison.detail == "rude":
            return False
        ctx.forward(LINK, record.key, poison.reason.encode())
        return True


def linked_stage(roster: Roster) -> Stage:
    return replace(counting_stage(), processor=Answering, link=roster)


def fused_linked_stage(roster: Roster) -> FusedStage:
    """What `raw` has goes to `in`, whose reader has the link."""
    passing = Stage("passing", ("raw",), (), Passing, writes=("in", "dlq"))
    return FusedStage("both", (passing, linked_stage(roster)))


def linked_topology() -> Topology:
    return fused_topology()
