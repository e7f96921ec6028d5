"""Answers redeliveries from memory; the dedup stage is what keeps events from running twice.

Only an event that Kafka has acknowledged is remembered, so a 200 never promises more than the
event's 202 did. After a restart, or beyond the cache's bounds, a redelivery is stored again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from streams.process.boot_clock import boot_seconds

LONGEST_SECONDS = 600.0


def seconds_kept(window_ms: int) -> float:
    """How long receipts are kept: at most a tenth of the window within which dedup drops twins.

    A receipt that outlived the window would hide an event that the pipeline treats as new.
    """
    return min(LONGEST_SECONDS, window_ms / 10_000)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of an accepted event's answer; `job_id` is None if no route gives it a job."""

    event_id: str
    job_id: str | None


class Duplicates:
    """The most recent receipts by fingerprint: at most `entries` of them, `seconds` old."""

    def __init__(
        self,
        entries: int = 200_000,
        seconds: float = LONGEST_SECONDS,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        # Python's garbage collector skips plain tuples of plain values. Scanning hundreds of
        # thousands of objects would delay every request by a tenth of a second.
        self._recent: OrderedDict[bytes, tuple[float, str, str | None]] = OrderedDict()
        self._underway: dict[bytes, asyncio.Future[None]] = {}

    async def once(
        self, fingerprint: bytes, store: Callable[[], Awaitable[Receipt]]
    ) -> tuple[Receipt, bool]:
        """The receipt of an event, and whether it had been stored before.

        A twin that arrives while the first is being stored waits for it, and stores the event
        itself if the first one failed. Raises what `store` raises.
        """
        while True:
            known = self._known(fingerprint)
            if known is not None:
                return known, True
            first = self._underway.get(fingerprint)
            if first is None:
                return await self._store(fingerprint, store), False
            await asyncio.wait([first])

    async def _store(self, fingerprint: bytes, store: Callable[[], Awaitable[Receipt]]) -> Receipt:
        ended = self._underway[fingerprint] = asyncio.get_running_loop().create_future()
        try:
            receipt = await store()
            self._remember(fingerprint, receipt)
            return receipt
        finally:
            del self._underway[fingerprint]
            ended.set_result(None)

    def _known(self, fingerprint: bytes) -> Receipt | None:
        found = self._recent.get(fingerprint)
        if found is None:
            return None
        until, event_id, job_id = found
        if until <= self._clock():
            del self._recent[fingerprint]
            return None
        self._recent.move_to_end(fingerprint)
        return Receipt(event_id, job_id)

    def _remember(self, fingerprint: bytes, receipt: Receipt) -> None:
        until = self._clock() + self._seconds
        self._recent[fingerprint] = (until, receipt.event_id, receipt.job_id)
        if len(self._recent) > self._entries:
            self._recent.popitem(last=False)
