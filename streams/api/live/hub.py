"""Wakes the readers of streams whose jobs changed, once for each batch that was folded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prometheus_client import Gauge

from streams.api.live.interests import Interest, Interests, touched
from streams.api.live.page import Heard
from streams.api.live.position import TOPICS
from streams.api.live.reader import Reader
from streams.api.live.rounds import Rounds, SharedReads
from streams.api.read_model.row_notifier import RowNotifier
from streams.api.rows.table import RowKey
from streams.kafka.offsets import Place

OPEN = Gauge("tidegate_operator_streams", "Streams of server-sent events that are open")

Barrier = Callable[..., Awaitable[None]]
"""Returns once the rows of the given partitions of topics are as new as its call."""


class Hub:
    """All readers of this process; it belongs to its event loop."""

    def __init__(
        self, notifier: RowNotifier, reads: SharedReads, barrier: Barrier, partitions: int
    ) -> None:
        self.reads = reads
        self._partitions = partitions
        self._notifier = notifier
        self._barrier = barrier
        self._barriers: dict[tuple[int, tuple[str, ...]], Rounds] = {}
        self._readers: dict[Reader, Interests] = {}
        self._interested: dict[Interest, set[Reader]] = {}

    @property
    def readers(self) -> int:
        """How many streams are open."""
        return len(self._readers)

    def heard(self) -> Heard:
        """Return the offsets before which every change has been told to its readers."""
        ends = self._notifier.folded
        return {
            (partition, number): end
            for number, topic in enumerate(TOPICS)
            for partition in range(self._partitions)
            if (end := ends.get((topic, partition))) is not None
        }

    def attend(self, reader: Reader, interests: Interests) -> None:
        """Wake a reader for these interests alone, from now on."""
        if not self._readers:
            self._notifier.listen(self._changed)
        before = self._readers.get(reader, {})
        self._readers[reader] = interests
        OPEN.set(len(self._readers))
        for gone in before.keys() - interests.keys():
            self._forget(gone, reader)
        for interest in interests:
            self._interested.setdefault(interest, set()).add(reader)

    def leave(self, reader: Reader) -> None:
        """Wake a reader no more."""
        interests = self._readers.pop(reader, None)
        if interests is None:
            return
        OPEN.set(len(self._readers))
        for interest in interests:
            self._forget(interest, reader)
        if not self._readers:
            self._notifier.dismiss(self._changed)

    def close(self) -> None:
        """End all streams: the process ends, and their readers resume with another."""
        for reader in tuple(self._readers):
            reader.close()

    async def settle(self, partition: int, topics: tuple[str, ...] = TOPICS) -> None:
        """Return once all that the topics hold now in a partition is in the read model.

        Raises:
            Refusal: that takes too long.
        """
        rounds = self._barriers.get((partition, topics))
        if rounds is None:
            places: list[Place] = [(topic, partition) for topic in topics]
            rounds = Rounds(partial(self._barrier, *places))
            self._barriers[partition, topics] = rounds
        await rounds.join()

    def _changed(self, changed: Sequence[RowKey]) -> None:
        for row in changed:
            for interest in touched(row):
                for reader in self._interested.get(interest, ()):
                    job_ids = self._readers[reader].get(interest, ())
                    reader.wake((job_id, row[0]) for job_id in job_ids)

    def _forget(self, interest: Interest, reader: Reader) -> None:
        readers = self._interested[interest]
        readers.discard(reader)
        if not readers:
            del self._interested[interest]
