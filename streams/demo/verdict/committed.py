"""Reads topics from their first record to their last committed one."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, KafkaException

from streams.kafka.admin import admin_client
from streams.kafka.offsets import Place, latest, read_offsets
from streams.kafka.tail import Tail
from streams.settings import Settings

_TIMEOUT = 10.0
_PAUSE_SECONDS = 0.2
_LEADERS_SECONDS = 30.0


class CommittedReader(Tail):
    """A tail of every partition of some topics, which also asks where they end."""

    def __init__(self, settings: Settings, topics: Iterable[str]) -> None:
        super().__init__(settings, "demo-audit")
        self._admin = admin_client(settings)
        widths = self.widths(_TIMEOUT)
        self.begin({(t, n): OFFSET_BEGINNING for t in topics for n in range(widths[t])})

    def ends(self) -> dict[Place, int]:
        """The current end offset of every partition, including open transactions.

        Raises:
            KafkaException: no answer within half a minute, which is enough to find new leaders.
        """
        deadline = time.monotonic() + _LEADERS_SECONDS
        while True:
            try:
                return read_offsets(self._admin, self._prefix, self.next, latest(), _TIMEOUT)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)
