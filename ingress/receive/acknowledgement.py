"""Waits for Kafka to acknowledge an event, within a deadline, and logs when it stops doing so.

G1: a webhook is answered 2xx only after all in-sync replicas have acknowledged its body and its
envelope. After any other answer it may have been written or not, and its sender delivers it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import structlog

from ingress.receive.problems import UNAUTHORIZED, UNAVAILABLE, Refused
from streams.errors import Erased, KafkaUnavailable

T = TypeVar("T")
log = structlog.get_logger(__name__)

CALM_SECONDS = 10.0


class Acknowledgement:
    """Bounds how long Kafka may take over one event."""

    def __init__(self, deadline_seconds: float) -> None:
        self._deadline = deadline_seconds
        self._acknowledged = True
        self._missed_at = float("-inf")

    async def of(self, storing: Awaitable[T]) -> T:
        """What `storing` returns once its records are acknowledged.

        Raises:
            Refused: 503 if they were not in time; 401 if the tenant was erased meanwhile.
        """
        try:
            async with asyncio.timeout(self._deadline):
                return await storing
        except TimeoutError:
            self._missed("deadline")
            raise Refused(UNAVAILABLE, "Kafka did not acknowledge the event in time") from None
        except Erased:
            raise Refused(UNAUTHORIZED, cause="erased_tenant") from None
        except KafkaUnavailable as error:
            self._missed(str(error))
            raise Refused(UNAVAILABLE, "Kafka did not acknowledge the event") from None

    def note(self) -> None:
        """Log once when Kafka has acknowledged for a while after it had stopped.

        If one partition has no leader, Kafka goes on to acknowledge the events of others.
        """
        if self._acknowledged or time.monotonic() - self._missed_at < CALM_SECONDS:
            return
        self._acknowledged = True
        log.info("kafka acknowledges again")

    def _missed(self, reason: str) -> None:
        self._missed_at = time.monotonic()
        if self._acknowledged:
            self._acknowledged = False
            log.warning("kafka does not acknowledge: answering 503", reason=reason)
