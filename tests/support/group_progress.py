"""How far a stage's group has committed its input: what shows that it works, seen from outside."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.conditions import PATIENCE_SECONDS, eventually
from support.stage_process import QUIET, Cluster

RECOVERY_SECONDS = 60.0
"""Within it a stage works again after a fault (G8), on a busy machine too: one session or
transaction runs out, and a process begins anew."""


class GroupProgress:
    """The committed offsets of one stage on one of its inputs.

    Asked with a consumer that never joins: AdminClient's own call for it crashes the process while
    the group has none (confluent-kafka 2.16.1).
    """

    def __init__(self, cluster: Cluster, stage: str, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._places = [
            TopicPartition(cluster.prefix + topic, p) for p in range(cluster.width(topic))
        ]
        reader = {**cluster.client(group_id=cluster.prefix + stage), "enable.auto.commit": False}
        self._any = Consumer({**reader, "isolation.level": "read_uncommitted", **QUIET})
        self._stable = Consumer({**reader, "isolation.level": "read_committed", **QUIET})

    def committed(self) -> dict[int, int]:
        """The next offset by partition; empty while the broker does not answer."""
        return self._ask(self._any)

    def stable(self) -> bool:
        """Whether no open transaction holds offsets of the group back (KIP-447)."""
        return bool(self._ask(self._stable))

    def await_recovery(self, seconds: float = RECOVERY_SECONDS) -> float:
        """Wait until every partition has moved on from where it is now; the seconds it took."""
        began = time.monotonic()
        before: dict[int, int] = {}

        def moved_on() -> bool:
            now = self.committed()
            before.update({} if before else now)
            return _all_beyond(now, before)

        try:
            eventually(moved_on, seconds, what="every partition moves on")
        except AssertionError as error:
            raise AssertionError(f"{error}; from {before} to {self.committed()}") from None
        return time.monotonic() - began

    def await_end(self, seconds: float = PATIENCE_SECONDS) -> dict[int, int]:
        """Wait until all that is in the topic is committed; what is left undone, by partition."""
        ends = self._cluster.ends(self._topic)
        try:
            eventually(lambda: not self._left(ends), seconds, what="all input committed")
        except AssertionError:
            return self._left(ends)
        return {}

    def close(self) -> None:
        self._any.close()
        self._stable.close()

    def _left(self, ends: Mapping[int, int]) -> dict[int, int]:
        done = self.committed()
        return {p: end - done.get(p, 0) for p, end in ends.items() if done.get(p, 0) < end}

    def _ask(self, consumer: Consumer) -> dict[int, int]:
        try:
            answered = consumer.committed(self._places, 2)
        except KafkaException:
            return {}
        if any(place.error for place in answered):
            return {}
        return {place.partition: max(0, place.offset) for place in answered}


def _all_beyond(now: Mapping[int, int], before: Mapping[int, int]) -> bool:
    return bool(now) and all(now[p] > offset for p, offset in before.items())
