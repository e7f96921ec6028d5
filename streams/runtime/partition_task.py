"""What the runtime does with one partition's task, be it of one stage or of several fused ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Protocol

from streams.runtime.context import Output
from streams.runtime.processor import AnyStage, Record
from streams.state.overlay import Overlay
from streams.state.store import Logged


class PartitionTask(Protocol):
    """Everything a task does is provisional until `committed`; `rollback` forgets all of it.

    `positions` is the next offset to process of each input (logical topic), `outputs` what is to
    be sent, `poisoned` counts the records sent to `dlq`, and `changes` the entries of its stores
    that are to be changed. `hand_over` False has fused parts go by the topics between them.
    """

    hand_over: bool

    @property
    def stage(self) -> AnyStage: ...

    @property
    def partition(self) -> int: ...

    @property
    def stores(self) -> Mapping[str, Overlay]: ...

    @property
    def poisoned(self) -> int: ...

    @property
    def positions(self) -> Mapping[str, int]: ...

    @property
    def outputs(self) -> Sequence[Output]: ...

    @property
    def dirty(self) -> bool:
        """Whether there is anything to commit."""

    @property
    def changes(self) -> int: ...

    @property
    def initiates(self) -> bool:
        """Whether a processor forwards what belongs to no record."""

    def restoring(self) -> Generator[None]:
        """Let the processors build what they derive from their stores, part by part.

        Raises:
            StageFailed: a processor cannot.
            TidegateError: it wrote, which its contract forbids.
        """

    def restored(self) -> None:
        """`restoring` in one go."""

    def process(self, records: Sequence[Record]) -> None:
        """Handle records in order; one that can never be handled leaves a dead letter instead.

        Raises:
            StageFailed: a failure that is no record's fault; nothing may be committed.
        """

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        """Pass a record by, leaving a dead letter in place of all it would have done."""

    def punctuate(self) -> None:
        """Tell the processors that time has passed."""

    def initiate(self, limit: int | None = None) -> int:
        """Have them forward what belongs to no record, up to a limit; how many records it was."""

    def drop_refused(self, topic: str, key: bytes | None, detail: str, missing: bool) -> None:
        """Tell the processor which of its initiated outputs the broker will never take."""

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        """For each store that changed: its name, its changelog, the records, and their timestamp.

        It is the stream time, so that a rebuilt store knows it.
        """

    def committed(self, changelog_offsets: Mapping[str, int]) -> None:
        """The transaction is committed: write it to the backends.

        `changelog_offsets` names, for each store that changed, the offset behind its last
        changelog record.
        """

    def rollback(self) -> None:
        """The transaction is aborted: be as after the last commit."""

    def closed(self) -> None:
        """Tell the processors that their work here is over."""

    def close(self) -> None:
        """Leave the state as committed, dated when it was last known to be current.

        Not now: a process that was frozen may close what has long been another's.
        """
