"""As of when the rows are complete: known from broker's answers alone, never from silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.kafka.failures import Outage
from streams.kafka.offsets import latest, offset_in, request_offsets
from streams.operator.read_model.positions import MAX_AGE_MS, PartitionKey, Untrusted

_EVERY_MS = 1_000
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ends:
    """End offsets as the broker gave them when asked at `asked_at`, milliseconds."""

    asked_at: int
    offsets: Mapping[PartitionKey, int]


class Freshness:
    """`at` is when, in milliseconds, all that was on the topics is known to have been folded."""

    def __init__(self, at: int, ends: Ends) -> None:
        self.at = at
        self.newest = ends
        self._goal = ends

    def heard(self, ends: Ends) -> None:
        """The broker has answered."""
        self.newest = ends

    def reached(self, positions: Mapping[PartitionKey, int]) -> None:
        """Rows and these positions are stored."""
        # One goal at a time: under steady load the newest ends are always a little ahead.
        for goal in (self._goal, self.newest):
            if all(positions[place] >= end for place, end in goal.offsets.items()):
                self.at = max(self.at, goal.asked_at)
                self._goal = self.newest

    def require(self, now: int) -> None:
        """Stop a session that was cut off for long.

        Raises:
            Untrusted: deletions may have been compacted away since `at`.
        """
        if now - self.at > MAX_AGE_MS:
            raise Untrusted(
                "it was cut off for so long that deletions may have been compacted away"
            )


class EndsQuestion:
    """Asks a broker for ends about once a second, and waits for no answer."""

    def __init__(
        self, admin: AdminClient, prefix: str, places: Iterable[PartitionKey], outage: Outage
    ) -> None:
        self._admin = admin
        self._prefix = prefix
        self._places = tuple(places)
        self._outage = outage
        self._asked_at = 0
        self._open: dict[PartitionKey, Future[Any]] | None = None

    def answer(self, now: int) -> Ends | None:
        """A new answer if there is one; asks the next question when it is time, at `now`."""
        found = self._collected()
        if self._open is None and not 0 <= now - self._asked_at < _EVERY_MS:
            self._asked_at = now
            self._open = request_offsets(
                self._admin, self._prefix, self._places, latest(), _PATIENCE_SECONDS
            )
        return found

    def _collected(self) -> Ends | None:
        if self._open is None or not all(each.done() for each in self._open.values()):
            return None
        answers, self._open = self._open, None
        try:
            return Ends(self._asked_at, {place: offset_in(a) for place, a in answers.items()})
        except KafkaException as error:
            self._outage.failed(error)
            return None
