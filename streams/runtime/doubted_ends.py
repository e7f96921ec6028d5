"""Ends of changelogs that lie before what a store already has of them.

A changelog ends there if its broker lost records. But a leader that is cut off from its cluster,
and not yet from its clients, gives such an end as well, because Kafka gives leaders no lease. By
its end, a good store would be wiped, and its restore would lack what was written since. So such an
end is asked for again, for longer than a cluster takes to give the partition another leader.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import structlog

from streams.kafka.offsets import Place

log = structlog.get_logger(__name__)

DOUBT_SECONDS = 60.0
"""A broker that is cut off is given up by its cluster after 9 s, and by clients after 10 s."""


class EndDoubted(Exception):
    """An end is not believed yet: ask again."""


class DoubtedEnds:
    """The places whose stores are ahead of the end, and since when; it lasts over several tries."""

    def __init__(self) -> None:
        self._since: dict[Place, float] = {}

    def check(self, ahead: Mapping[Place, tuple[int, int]]) -> None:
        """Note all stores that are ahead now: the offset of each one's checkpoint, and the end.

        Raises:
            EndDoubted: an end is not believed yet.
        """
        now = time.monotonic()
        for (topic, partition), (checkpoint, end) in ahead.items():
            if (topic, partition) not in self._since:
                log.warning(
                    "changelog ends before what its store has: asking again, in case its "
                    "leader is deposed",
                    topic=topic,
                    partition=partition,
                    checkpoint=checkpoint,
                    end=end,
                    for_seconds=DOUBT_SECONDS,
                )
        self._since = {place: self._since.get(place, now) for place in ahead}
        if any(now - since < DOUBT_SECONDS for since in self._since.values()):
            raise EndDoubted
        self._since = {}
