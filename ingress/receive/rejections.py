"""Counts refusals: one record for each tenant, source, reason and cause in each interval.

Only the tenant and source of a request's path are kept, and only if they are known: senders can
invent names, and all invented names count as one entry. Only administrators read the cause, which
tells apart what a sender sees as one answer. No delivery waits for this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ingress.receive.answer_log import AnswerLog
from ingress.receive.sender import Sender
from streams.errors import KafkaUnavailable
from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.codec import REJECTION
from streams.serde.records import Rejection

log = structlog.get_logger(__name__)

TOPIC = "rejections"
INTERVAL_SECONDS = 10.0
_MAX_ENTRIES = 5_000

Known = Callable[[str, str], tuple[str | None, str | None]]
"""The tenant and source of a path; each is None if none of that name exists."""
_Key = tuple[str | None, str | None, str, str | None]
"""Tenant, source, reason and cause."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The count since the last record; times in milliseconds."""

    count: int
    first_at: int
    last_at: int

    def __add__(self, other: Tally) -> Tally:
        first, last = min(self.first_at, other.first_at), max(self.last_at, other.last_at)
        return Tally(self.count + other.count, first, last)


class Rejections:
    """Counts refusals and writes the counts; belongs to one event loop."""

    def __init__(
        self, sender: Sender, known: Known, partitions: int, max_entries: int = _MAX_ENTRIES
    ) -> None:
        self._sender = sender
        self._known = known
        self._partitions = partitions
        self._max_entries = max_entries
        self._log = AnswerLog()
        self._counted: dict[_Key, Tally] = {}

    def note(self, tenant_id: str, source: str, reason: str, cause: str | None = None) -> None:
        """Count a refused delivery to this path.

        `reason` is the name of the problem that its sender saw; `cause` is what was wrong, where
        the problem does not say it.
        """
        now, known = wall_ms(), self._known(tenant_id, source)
        self._add((*known, reason, cause), Tally(1, now, now))
        self._log.refused(*known, f"{reason}, {cause}" if cause else reason)

    def note_unread(self, reason: str) -> None:
        """Count a refused request whose path could not be read."""
        now = wall_ms()
        self._add((None, None, reason, None), Tally(1, now, now))

    async def run(self) -> None:
        """Write the counts at every interval, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write the counts; a count whose record is not acknowledged is kept and goes on."""
        counted, self._counted = self._counted, {}
        sent = await asyncio.gather(*(self._write(key, tally) for key, tally in counted.items()))
        for key, tally, held in zip(counted, counted.values(), sent, strict=True):
            if not held:
                self._add(key, tally)

    def _add(self, key: _Key, tally: Tally) -> None:
        if key not in self._counted and len(self._counted) >= self._max_entries:
            key = (None, None, *key[2:])
        before = self._counted.get(key)
        self._counted[key] = before + tally if before else tally

    async def _write(self, key: _Key, tally: Tally) -> bool:
        tenant_id, source, reason, cause = key
        record = Rejection(
            ids.new_id("rej"),
            tenant_id,
            source,
            reason,
            tally.count,
            tally.first_at,
            tally.last_at,
            cause,
        )
        home = ids.partition_for(tenant_id or "", self._partitions)
        try:
            await self._sender.send(
                TOPIC, record.id.encode(), REJECTION.encode(record), partition=home
            )
        except KafkaUnavailable as error:
            log.debug("rejections are counted on", reason=str(error))
            return False
        return True
