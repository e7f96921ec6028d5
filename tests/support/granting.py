"""A small stage that uses every optional hook of a processor, for tests of the runtime itself.

It grants what waits, as the dispatcher leases jobs: `initiate` forwards a grant for each waiting
key. Input values say what becomes of the key: `grant` is granted, `huge` and `nowhere` are granted
in a way that no broker takes, `poison` waits and then fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.errors import PoisonRecord
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import Stage, StoreSpec
from streams.topology.model import StageDeclaration, StoreDeclaration, Topic, Topology
from support.counting import HUGE

WAITING = (b"grant", b"huge", b"nowhere")
_HELD_BACK_MS = 10_000


class Granting(Processor):
    """Keys in `keys` with their state; `waiting` is derived, and `journal` says what changed.

    `calls` names the hooks in the order of their calls.
    """

    def __init__(self, partition: int) -> None:
        self.waiting: dict[bytes, bytes] = {}
        self.journal: set[bytes] = set()
        self.calls: list[str] = []
        self.held_until = 0

    def restored(self, ctx: Context) -> Iterator[None]:
        self.calls.append("restored")
        self.waiting.clear()
        for key, state in ctx.store("keys").range(b"", b"\xff"):
            self._follow(key, state)
            yield
        self.calls.append("complete")

    def undone(self, ctx: Context) -> None:
        self.calls.append("undone")
        for key in self.journal:
            self._follow(key, ctx.store("keys").get(key))
        stored = ctx.store("keys").range(b"", b"\xff")
        assert self.waiting == {k: state for k, state in stored if state in WAITING}

    def committed(self) -> None:
        self.calls.append("committed")
        self.journal.clear()

    def process(self, record: Record, ctx: Context) -> None:
        key, verb = record.key or b"", record.value or b""
        self._set(key, verb, ctx)
        if verb == b"poison":
            raise PoisonRecord("bad_verb", "told to")
        ctx.forward("out", key, b"accepted")

    def initiate(self, ctx: Context, limit: int | None) -> None:
        self.calls.append(f"initiate {limit}")
        held = self.held_until > ctx.now
        ready = [key for key, verb in self.waiting.items() if not (held and verb == b"nowhere")]
        for key in sorted(ready)[:limit]:
            verb = self.waiting[key]
            topic = "nowhere" if verb == b"nowhere" else "out"
            ctx.forward(topic, key, b"x" * HUGE if verb == b"huge" else b"granted")
            self._set(key, b"granted", ctx)

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        assert (topic == "nowhere") == missing
        if missing:
            self.held_until = ctx.now + _HELD_BACK_MS
            return
        self._set(key or b"", b"refused", ctx)
        ctx.forward("out", key, b"refused")

    def closed(self) -> None:
        self.calls.append("closed")

    def _set(self, key: bytes, state: bytes, ctx: Context) -> None:
        ctx.store("keys").put(key, state)
        self.journal.add(key)
        self._follow(key, state)

    def _follow(self, key: bytes, state: bytes | None) -> None:
        self.waiting.pop(key, None)
        if state in WAITING:
            self.waiting[key] = state


def granting_stage() -> Stage:
    return Stage("granting", ("in",), (StoreSpec("keys", "granting.keys.changelog"),), Granting)


def granting_topology(partitions: int = 2) -> Topology:
    store = StoreDeclaration("keys", "granting.keys.changelog")
    names = ("in", "out", "dlq", store.changelog)
    clock = Topic("clock", partitions, timestamp="append")
    return Topology(
        partitions=partitions,
        window_ms=1_000,
        topics={t.name: t for t in (*(Topic(n, partitions) for n in names), clock)},
        stages={"granting": StageDeclaration("granting", ("in",), ("out", "dlq"), (store,))},
        priorities={},
        pools=(),
        job_types={},
        routes=(),
        limits=(),
        finished_jobs_ms=0,
    )
