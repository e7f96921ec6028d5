"""What a stage is made of: plain code that imports no Kafka client.

A processor turns records into changes of its stores and records forwarded to topics. The runtime
promises that state, outputs and input offsets become true together or not at all (one Kafka
transaction), that records of one partition arrive in order, and that one thread calls the
processor. In return a processor keeps all facts in its stores. Whatever else it remembers, it must
be able to rebuild in `restored`, and to correct in `undone` when writes are taken back.

Only `PoisonRecord` sends a record to `dlq`. Any other exception of a processor ends the stage with
nothing committed: a disk that denies a read, or a bug of ours, must never send good records to
`dlq`.
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
    """A task (one partition of one stage) as its processor sees it."""

    @property
    def partition(self) -> int: ...

    @property
    def now(self) -> int:
        """The broker's time in milliseconds, or a little less; it never runs backwards."""

    @property
    def monotonic(self) -> float:
        """Seconds on a clock that never steps, comparable only until the machine boots again.

        It counts the time that the machine is suspended.
        """

    @property
    def stream_time(self) -> int:
        """Highest record timestamp this task has processed, in milliseconds; 0 before any.

        `process` sees it with the current record counted, `process_batch` without the current ones.
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
        """Forward records as they are; much cheaper than a `forward` for each."""

    def timer(self, tenant_id: str, id_: str, due: int, topic: str, value: bytes) -> None:
        """Have the scheduler send a value to a topic at a time in milliseconds, or a little later.

        It is sent once, to this partition, under the tenant's key. A timer of the same tenant and
        id that has not fired is replaced. The stage must write `schedule`.
        """

    def on_undo(self, call: Callable[..., object], *args: object) -> None:
        """Have derived state corrected if what was just done is undone.

        This happens after a poison record, a refused output and an aborted transaction. The calls
        are made in reverse order; the stores then hold what they held before. A call must not
        write or forward.
        """

    def on_commit(self, call: Callable[..., object], *args: object) -> None:
        """Make a call once all that was done so far is durable, unless it is undone before."""

    def caught_up_to(self, topic: str, moment: float) -> bool:
        """Whether everything on this input at monotonic `moment` has been processed.

        The first call with a new moment may ask the broker and answer False; ask again at the next
        punctuation. The answer is also False while the broker is silent.
        """


class Processor:
    """One task's logic; an instance serves exactly one partition.

    The runtime calls these hooks. Each does nothing unless a processor has its own, except that
    `process` is always its own.
    """

    def restored(self, ctx: Context) -> Iterator[None] | None:
        """Stores are complete: build the state derived from them, and forget all before.

        Called after assignment. A long one is a generator that yields about every 10 ms: the
        runtime goes on polling and working for other partitions in between, processes no record of
        this one before the end, and drops the generator if the partition is taken away. It must not
        write or forward.
        """

    def process(self, record: Record, ctx: Context) -> None:
        """Handle one record.

        Raises:
            PoisonRecord: the record can never be processed; its changes are undone, it goes
                to `dlq`, and the stage moves on.
        """
        raise NotImplementedError

    def punctuate(self, now: int, ctx: Context) -> None:
        """Time has passed; called about every `Stage.punctuate_seconds`.

        A call that changes and forwards nothing costs no transaction. A call that raises ends the
        stage: its stores hold what was once accepted, so no record caused the failure.
        """

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Forward records that no input record causes, after a step's records and punctuation.

        With a `limit`, forward at most that many records. To find an output that the broker
        refuses, the runtime takes back what this did and calls it with ever smaller limits. A
        processor with this hook also needs `refused`.
        """

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """The broker will never take this output of `initiate`: make sure it is not sent again.

        `missing` says that the topic or partition does not exist, which is not the output's fault:
        hold the output back for a while, with everything else for the same place. What this writes
        and forwards is committed, and `initiate` is called again.
        """

    def finish(self, ctx: Context) -> None:
        """Write what was put off: the transaction is committed next, or nothing was done."""

    def committed(self) -> None:
        """All writes so far are durable: a journal kept for `undone` may be cleared.

        A step that wrote and forwarded nothing has this call without a transaction.
        """

    def undone(self, ctx: Context) -> None:
        """Some or all of what was done since `committed` was taken back.

        This happens after a poison record, a refused output and an aborted transaction. Bring the
        derived state in line with the stores, touching only what changed since `committed`; the
        stores show what holds now. It must not write or forward. Without a hook of its own, a
        processor builds everything anew by `restored`.
        """
        for _ in self.restored(ctx) or ():
            pass

    def closed(self) -> None:
        """The partition was taken away or the process ends; drop gauges. Stores are closed next."""


class BatchProcessor(Processor):
    """A processor that wants a partition's records together, to look keys up in one go."""

    def process(self, record: Record, ctx: Context) -> None:
        self.process_batch([record], ctx)

    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Handle records in order; one that raises is undone, and each is handled alone."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store of a stage and the topic that is its changelog.

    `window_ms` makes it a window store: an entry expires once the stream time is that much later
    than the entry's own time.
    """

    name: str
    changelog: str
    kind: Literal["key_value", "window"] = "key_value"
    window_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the runtime runs it: inputs are co-partitioned logical topics.

    `writes` are globs of the topics to which it forwards. `letters` is the input on which its dead
    letters come back, which no other stage reads; without one they cannot be replayed. `compacted`
    are the inputs of which only the newest record of a key counts.
    """

    name: str
    inputs: tuple[str, ...]
    stores: tuple[StoreSpec, ...]
    processor: Callable[[int], Processor]
    punctuate_seconds: float = 0.1
    writes: tuple[str, ...] = ()
    letters: str | None = None
    compacted: frozenset[str] = frozenset()

    @property
    def own_inputs(self) -> frozenset[str]:
        """Its inputs that it alone writes: none, since it would read them itself."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class FusedStage:
    """Stages of the same partitions that a process runs as one, in the order of the flow.

    They have one consumer group, one producer and one transaction. A record that one forwards to an
    input of another is handed over in memory (`runtime/fused_task.py`).
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
    def own_inputs(self) -> frozenset[str]:
        """The inputs of a part that other parts write, and nobody else but replays of letters."""
        written = {topic for part in self.parts for topic in part.writes}
        read = {topic for part in self.parts for topic in part.inputs if topic != part.letters}
        return frozenset(written & read)

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
    compacted = {topic for topic in declared.reads if "compact" in topology.topics[topic].cleanup}
    return Stage(
        name,
        declared.reads,
        stores,
        processor,
        punctuate_seconds,
        declared.writes,
        topology.letter_input(name),
        frozenset(compacted),
    )
