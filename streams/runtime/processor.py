"""The contract of a processor: plain code that imports no Kafka client.

A processor turns records into changes of its stores and records forwarded to topics. The runtime
promises that state, outputs and input offsets become true together or not at all (one Kafka
transaction), that records of one partition arrive in order, and that one thread calls the
processor. In return a processor keeps all facts in its stores. Whatever else it remembers, it must
be able to rebuild in `restored`, and to correct in `undone` when writes are taken back.

Only `PoisonRecord` sends a record to `dlq`, unless the processor answers its sender (`answer`). Any
other exception of a processor ends the stage with nothing committed: a disk that denies a read, or
a bug of ours, must never send good records to `dlq`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from streams.errors import PoisonRecord
from streams.state.store import KeyValueStore

Header = tuple[str, bytes]

REST_SECONDS = 0.5
"""How long the next punctuation of a stage may be put off that has nothing to do."""
WAIT_SECONDS = 0.02
"""How long records that are in no hurry wait for others."""


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

    def drop_timer(self, tenant_id: str, id_: str) -> None:
        """Have the scheduler forget a timer that has not fired."""

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


class HandlesRecords(ABC):
    """What every processor has to have."""

    @abstractmethod
    def process(self, record: Record, ctx: Context) -> None:
        """Handle one record.

        Raises:
            PoisonRecord: the record can never be processed; its changes are undone, it goes
                to `dlq`, and the stage moves on.
        """


class Processor(HandlesRecords):
    """One task's logic; an instance serves exactly one partition.

    The runtime calls these hooks. Each does nothing unless a processor has its own.
    """

    def restored(self, ctx: Context) -> Iterator[None] | None:
        """Stores are complete: build the state derived from them, and forget all before.

        Called after assignment. A long one is a generator that yields about every 10 ms: the
        runtime goes on polling and working for other partitions in between, processes no record of
        this one before the end, and drops the generator if the partition is taken away. It must not
        write or forward.
        """

    def answer(self, record: Record, poison: PoisonRecord, ctx: Context) -> bool:
        """A record is poison: answer it to its sender; if so, it leaves no dead letter.

        What the record did is undone; what this writes and forwards is committed. It must not raise
        `PoisonRecord`.
        """
        return False

    def punctuate(self, now: int, ctx: Context) -> None:
        """Time has passed; called about every `Stage.punctuate_seconds`.

        A call that changes and forwards nothing costs no transaction. A call that raises ends the
        stage: its stores hold what was once accepted, so no record caused the failure.
        """

    def rests(self, ctx: Context) -> bool:
        """Whether nothing is under way that time or another thread moves within `REST_SECONDS`.

        Then the next punctuation may come that late, unless a record comes before. It is asked
        after a step that changed and forwarded nothing.
        """
        return False

    def may_wait(self, records: Sequence[Record], ctx: Context) -> bool:
        """Whether these records, which are not yet handled, are in no hurry.

        Then they wait for up to `WAIT_SECONDS` for others, to share their transaction. Each record
        is asked about once. It must not read a store.
        """
        return False

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

    @abstractmethod
    def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
        """Handle records in order; one that raises is undone, and each is handled alone."""
