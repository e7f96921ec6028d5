"""Waits until the read model shows every record that a partition held when the wait began.

Only after this wait does a missing row mean that its record does not exist.
"""

from __future__ import annotations

import asyncio

from confluent_kafka import KafkaException

from streams.api.read_model.follower import POSITIONS, Follower
from streams.api.read_model.row_notifier import RowNotifier
from streams.api.refusal import Refusal
from streams.kafka.admin import admin_client
from streams.kafka.offsets import Place, latest, offset_in, request_offsets
from streams.settings import Settings


class ReadBarrier:
    """A barrier for the callers in one event loop."""

    def __init__(self, settings: Settings, follower: Follower, notifier: RowNotifier) -> None:
        self._admin = admin_client(settings)
        self._prefix = settings.topic_prefix
        self._follower = follower
        self._notifier = notifier

    async def wait(self, place: Place, seconds: float) -> None:
        """Return once the rows of a partition are as new as this call.

        Raises:
            Refusal: 503, the broker's answer or the rows took longer than `seconds`: ask again.
        """
        end = await self._end(place, seconds)

        async def reached() -> bool | None:
            return self._follower.folded(place) >= end or None

        if await self._notifier.until((POSITIONS, place), reached, seconds) is None:
            raise _late()

    async def _end(self, place: Place, seconds: float) -> int:
        # Count uncommitted records, too: their transaction may be committed at this moment.
        (end,) = request_offsets(self._admin, self._prefix, (place,), latest(), seconds).values()
        try:
            await asyncio.wrap_future(end)
            return offset_in(end)
        except KafkaException:
            raise _late() from None


def _late() -> Refusal:
    late = "the read model has not caught up, so that records may be missing: call again"
    return Refusal(503, "not-ready", late)
