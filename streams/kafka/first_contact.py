"""Asks brokers for a first answer, and remembers why none comes."""

from __future__ import annotations

import time
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.settings import Settings

_TELLING = (KafkaError._AUTHENTICATION, KafkaError._SSL)
"""Errors of brokers that are there, and refuse; another one may be away at the same time."""
_GOES_AWAY = "Local: Broker transport failure"


def note_reason(reasons: list[KafkaError], error: KafkaError) -> None:
    """Keep the client's error that best explains why no broker answers."""
    if refuses(error) or (not reasons and error.code() != KafkaError._ALL_BROKERS_DOWN):
        reasons[:] = [error]


def refuses(error: KafkaError) -> bool:
    """Whether a broker refuses this client.

    One that goes away before it has named its SASL mechanisms gets the same code.
    """
    return error.code() in _TELLING and _GOES_AWAY not in error.str()


class Contact:
    """An attempt to get an answer from any broker, for one thread.

    `refused_seconds` is the time from the first refusal of this client to one since the last
    question, 0 if there is none. A broker that was away in between begins anew.
    """

    def __init__(self, settings: Settings) -> None:
        self._heard: list[KafkaError] = []
        self._reason: KafkaError | None = None
        self._refused_at: float | None = None
        self.refused_seconds = 0.0
        listening = {"error_cb": partial(note_reason, self._heard), "socket.timeout.ms": 3_000}
        self._admin = AdminClient(settings.client(**listening))

    def silence(self) -> KafkaError | None:
        """Ask, and return why no broker answers within 2 s, or None if one does.

        The client pauses for up to 10 s between attempts to connect. So the reason stays the same
        while nothing new is heard.
        """
        self._heard.clear()
        try:
            self._admin.list_topics(timeout=2)
        except KafkaException as error:
            self._admin.poll(0)  # hands over the reasons
            self._count_refusal()
            self._reason = next(iter(self._heard), self._reason or error.args[0])
            return self._reason
        return None

    def _count_refusal(self) -> None:
        self.refused_seconds, now = 0.0, time.monotonic()
        if not self._heard:
            return
        if not refuses(self._heard[0]):
            self._refused_at = None
        elif self._refused_at is None:
            self._refused_at = now
        else:
            self.refused_seconds = now - self._refused_at
