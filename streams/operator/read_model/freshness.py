"""Tracks up to which time the rows are complete; only answers of a broker advance it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.kafka.failures import Outage
from streams.kafka.offsets import Place, latest, offset_in, request_offsets
from streams.operator.read_model.positions import MAX_AGE_MS, Untrusted

_EVERY_MS = 1_000
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Ends:
    """End offsets that the broker gave for a question sent at `asked_at` (milliseconds)."""

    asked_at: int
    offsets: Mapping[Place, int]


class Freshness:
    """The time `at` (milliseconds): every record that was on the topics then is folded."""

    def __init__(self, at: int, ends: Ends) -> None:
        self.at = at
        self.newest = ends
        self._goal = ends

    def heard(self, ends: Ends) -> None:
        """Note the broker's newest answer."""
        self.newest = ends

    def reached(self, positions: Mapping[Place, int]) -> None:
        """Update `at` once the rows up to these positions are stored."""
        # Keep an older goal, too: under steady load the positions never reach the newest ends.
        for goal in (self._goal, self.newest):
            if all(positions[place] >= end for place, end in goal.offsets.items()):
                self.at = max(self.at, goal.asked_at)
                self._goal = self.newest

    def require(self, now: int) -> None:
        """Stop a session that did not reach the broker for too long.

        Raises:
            Untrusted: deletions may have been compacted away since `at`.
        """
        if now - self.at > MAX_AGE_MS:
            raise Untrusted(
                "it was cut off for so long that deletions may have been compacted away"
            )


class EndOffsetsPoll:
    """Asks a broker for end offsets about once a second, without waiting for the answers."""

    def __init__(
        self, admin: AdminClient, prefix: str, places: Iterable[Place], outage: Outage
    ) -> None:
        self._admin = admin
        self._prefix = prefix
        self._places = tuple(places)
        self._outage = outage
        self._asked_at = 0
        self._open: dict[Place, Future[Any]] | None = None

    def answer(self, now: int) -> Ends | None:
        """Return a new answer if there is one, and send the next question if it is due at `now`."""
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
