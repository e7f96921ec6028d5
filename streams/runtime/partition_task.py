"""What the runtime does with one partition's task, whether of one stage or of fused stages."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from streams.runtime.context import Output
from streams.runtime.own_records import NOTHING, Written
from streams.runtime.processor import Record
from streams.runtime.stage import AnyStage
from streams.state.overlay import Overlay
from streams.state.store import Logged


class PartitionTask(Protocol):
    """Everything a task does is provisional until `committed` or `advanced`; `rollback` forgets it.

    `positions` is the next offset to process of each input (logical topic), `outputs` are the
    records to send, `poisoned` counts the records sent to `dlq`, and `changes` counts the entries
    to change in its stores. If `hand_over` is False, fused parts send each other records only
    through the topics.
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
    def commands(self) -> Sequence[Record]:
        """The records of the link that were handled and are not committed."""

    @property
    def dirty(self) -> bool:
        """Whether there is anything to commit, also if it is only positions that may wait."""

    @property
    def due(self) -> bool:
        """Whether there is anything that must be committed now."""

    @property
    def changes(self) -> int: ...

    @property
    def held_back(self) -> AbstractSet[str]:
        """Inputs (logical topics) to read no further until something else is read."""

    @property
    def initiates(self) -> bool:
        """Whether a processor forwards records that no input record causes."""

    def restoring(self) -> Generator[None]:
        """Let the processors build their derived state from their stores, part by part.

        Raises:
            StageFailed: a processor cannot.
            TidegateError: it wrote, which its contract forbids.
        """

    def restored(self) -> None:
        """`restoring` in one go."""

    def process(self, records: Sequence[Record]) -> None:
        """Handle records in order; one that can never be handled leaves a dead letter instead.

        Raises:
            StageFailed: a failure that no record caused; nothing may be committed.
        """

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        """Skip a record, and leave a dead letter in place of everything it would have done."""

    def punctuate(self) -> None:
        """Tell the processors that time has passed."""

    def rests(self) -> bool:
        """Whether its processors rest, so that the next punctuation may be put off."""

    def may_wait(self, records: Sequence[Record]) -> bool:
        """Whether these records of its inputs are in no hurry to be processed."""

    def put_off(self) -> None:
        """Let a punctuation that was undone wait for its next time."""

    def initiate(self, limit: int | None = None) -> int:
        """Have them forward such records, up to a limit; returns how many they forwarded."""

    def finish(self) -> None:
        """Have the processors write what they put off: a commit follows."""

    def drop_refused(self, topic: str, key: bytes | None, detail: str, missing: bool) -> None:
        """Tell the processor which of its initiated outputs the broker will never take."""

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        """For each store that changed: its name, its changelog, the records, and their timestamp.

        The timestamp is the stream time, so that a rebuilt store knows it, or 0 for a public topic,
        whose records are stamped when they are sent.
        """

    def advanced(self) -> None:
        """Note that a step ended which changed and sent nothing: only its positions wait.

        All that the processors wrote before is durable, so they are told what a commit tells them.
        """

    def committed(
        self, changelog_offsets: Mapping[str, int], written: Mapping[str, Written] = NOTHING
    ) -> None:
        """Write the changes to the backends: their transaction is committed.

        `changelog_offsets` has, for each store that changed, the offset after its last changelog
        record. `written` has what the transaction wrote to the stage's `own_inputs`.
        """

    def rollback(self) -> None:
        """Return to the state after the last step that was committed or only `advanced`."""

    def closed(self) -> None:
        """Tell the processors that their work here is over."""

    def close(self) -> None:
        """Leave the state as committed, dated when it was last known to be current.

        Do not date it now: a process that was frozen may close stores that have long been
        another's.
        """
