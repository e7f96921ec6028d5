"""What a stage is made of: plain code that imports no Kafka client.

A processor turns records into changes of its stores and records forwarded to topics. The
runtime promises it: state, outputs and input offsets become true together or not at all
(one Kafka transaction); records of one partition arrive in order; one thread calls it.
In return a processor keeps its truth in its stores: whatever else it remembers it must be
able to build again in `restored`, and to correct in `undone` when writes are taken back.

Only `PoisonRecord` costs a record. Whatever else a processor raises ends the stage with nothing
committed: a disk that denies a read, or a bug of ours, must never send good records to `dlq`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from streams.state.store import KeyValueStore
from streams.topology.model import Topology

Header = tuple[str, bytes]


class Record(NamedTuple):
    """One input record; `topic` is the logical name, `timestamp` in milliseconds.

    A tuple, because one is made for every record: a third of a frozen dataclass's cost.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class Context(Protocol):
    """The world as one task (one partition of one stage) sees it."""

    @property
    def partition(self) -> int: ...

    @property
    def now(self) -> int:
        """The broker's time in milliseconds, or a little less; it never runs backwards."""

    @property
    def monotonic(self) -> float:
        """Seconds on a clock that never steps, comparable within one machine's boot only.

        It counts the time that the machine is suspended.
        """

    @property
    def stream_time(self) -> int:
        """Highest record timestamp this task has processed, in milliseconds; 0 before any.

        The record in hand counts in `process`, but not those in hand in `process_batch`.
        """

    def store(self, name: str) -> KeyValueStore:
        """A store that the stage declared; reads see this transaction's own writes."""

    def forward(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp: int | None = None,
    ) -> None:
        """Send to a logical topic, to the task's own partition unless another is named."""

    def relay(self, topic: str, records: Sequence[Record]) -> None:
        """Forward records as they are; much cheaper than as many `forward`."""

    def caught_up_to(self, topic: str, moment: float) -> bool:
        """Whether all that stood on this input at monotonic `moment` has been processed.

        The first call with a new moment may ask the broker and answer False; ask again at
        the next punctuation. False, too, while the broker is silent.
        """


class Processor(Protocol):
    """One task's logic; an instance serves exactly one partition.

    `Hooks` names what a processor may have besides.
    """

    def restored(self, ctx: Context) -> Iterator[None] | None:
        """Stores are complete: build what is derived from them, forgetting all before.

        Called after assignment. A long one is a generator that yields about every 10 ms: the
        runtime goes on polling and working for other partitions in between, processes no record
        of this one before the end, and drops the generator if the partition is taken away.
        A processor without `undone` gets a whole `restored` in its place, too: after each batch or
        record that failed, whether or not it wrote. It must not write or forward.
        """

    def process(self, record: Record, ctx: Context) -> None:
        """Handle one record.

        Raises:
            PoisonRecord: the record can never be processed; its changes are undone, it goes
                to `dlq`, and the stage moves on.
        """

    def punctuate(self, now: int, ctx: Context) -> None:
        """Time has passed; called about every `Stage.punctuate_seconds`.

        One that changes and forwards nothing costs no transaction. One that raises ends the
        stage: what a store holds was accepted once, so the failure is not a record's.
        """


class Hooks(Protocol):
    """What a processor may have besides; the runtime looks for each once, by its name."""

    def undone(self, ctx: Context) -> None:
        """Some or all of what was done since the last commit was taken back.

        So it is after a poison record, a refused output and an aborted transaction. Bring what
        is derived in line with the stores, touching only what changed since `committed`; the
        stores show what holds now. It must not write or forward.
        """

    def committed(self) -> None:
        """All writes so far are durable: a journal kept for `undone` may be cleared."""

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Forward what belongs to no record, after a step's records and punctuation.

        With a `limit`, forward at most so many records. It is called with ever smaller limits,
        after what it did was taken back, to find an output that the broker refuses. Whoever has
        it has `refused`.
        """

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """The broker will never take this output of `initiate`: see that it is not sent again.

        `missing` says that the topic or partition does not exist, which is not the output's
        fault: hold it back for a while, and what else would go there. What this writes and
        forwards is committed, and `initiate` is called again.
        """

    def closed(self) -> None:
        """The partition was taken away or the process ends; drop gauges. Stores are closed next."""


class BatchProcessor(Processor, Protocol):
    """A processor that wants a partition's records together, to look keys up in one go."""

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Handle records in order; one that raises is undone, and each is handled alone."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store of a stage and the topic that is its changelog.

    `window_ms` makes it a window store: an entry leaves once the stream time is that much
    past its own.
    """

    name: str
    changelog: str
    kind: Literal["key_value", "window"] = "key_value"
    window_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the runtime runs it: inputs are co-partitioned logical topics.

    `writes` are globs of the topics that it forwards to.
    """

    name: str
    inputs: tuple[str, ...]
    stores: tuple[StoreSpec, ...]
    processor: Callable[[int], Processor]
    punctuate_seconds: float = 0.1
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusedStage:
    """Stages of the same partitions that a process runs as one, in the order of the flow.

    They have one consumer group, one producer and one transaction. What one forwards to an input of
    another is handed over in memory (`runtime/fused_task.py`).
    """

    name: str
    parts: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(topic for part in self.parts for topic in part.inputs)

    @property
    def stores(self) -> tuple[StoreSpec, ...]:
        return tuple(spec for part in self.parts for spec in part.stores)

    @property
    def punctuate_seconds(self) -> float:
        return min(part.punctuate_seconds for part in self.parts)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(topic for part in self.parts for topic in part.writes)


AnyStage = Stage | FusedStage


def parts_of(stage: AnyStage) -> tuple[Stage, ...]:
    """The stages that a stage consists of: itself, unless it is fused."""
    return (stage,) if isinstance(stage, Stage) else stage.parts


def declared_stage(
    topology: Topology,
    name: str,
    processor: Callable[[int], Processor],
    punctuate_seconds: float = 0.1,
) -> Stage:
    """The stage that the topology declares under this name, run by this processor.

    Window stores get the topology's window.
    """
    declared = topology.stages[name]
    stores = tuple(
        StoreSpec(s.name, s.changelog, s.kind, topology.window_ms if s.kind == "window" else 0)
        for s in declared.stores
    )
    return Stage(name, declared.reads, stores, processor, punctuate_seconds, declared.writes)
