"""Partitions that a consumer group leaves to nobody.

In a cooperative rebalance a member gives partitions up and rejoins; only then does the group give
them to another. A static member that ends in between, and is back within its session, gets what it
kept without a rebalance (KIP-345). What it gave up then has no owner until some member joins or
leaves, and no client gets an error. So each member looks at the group after it has joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.kafka.groups import owned_partitions
from streams.process.daemon_thread import DaemonThread

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_NONE: frozenset[int] = frozenset()


class UnownedPartitions:
    """Asks, after each join, which of a topic's partitions no member of the group owns.

    `patience` is the group's session in seconds. A member that is dead makes the group rebalance
    within it, and one that lives rejoins much sooner. `admin` is called in the thread that asks.
    """

    def __init__(
        self,
        admin: Callable[[], AdminClient],
        group: str,
        topic: str,
        width: int,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._asked = group, topic, _ANSWER_SECONDS
        self._all = frozenset(range(width))
        self._patience = patience
        self._clock = clock
        self._due = clock()
        self._since: float | None = None
        self._answer: Future[frozenset[int] | None] | None = None

    def claim(self, joining: bool, join_anew: Callable[[], object]) -> None:
        """Have this member join anew if partitions have had no owner for `patience`.

        The group shares out all partitions then. Call this often: it never waits.
        """
        unowned = self.lasting(joining)
        if unowned:
            log.warning("partitions have no owner: joining anew", partitions=sorted(unowned))
            join_anew()

    def lasting(self, joining: bool) -> frozenset[int]:
        """The partitions without an owner, once that has lasted `patience`; it never waits.

        It asks no more when every partition has an owner, until this member joins again.
        """
        if joining:
            self._begin()
        elif self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            return self._judge(answer)
        elif self._answer is None and self._clock() >= self._due:
            self._due = self._clock() + _EVERY_SECONDS
            self._answer = self._ask()
        return _NONE

    def _begin(self) -> None:
        self._due, self._since, self._answer = self._clock(), None, None

    def _ask(self) -> Future[frozenset[int] | None]:
        answer: Future[frozenset[int] | None] = Future()

        def ask() -> None:
            answer.set_result(owned_partitions(self._admin(), *self._asked))

        DaemonThread("group", ask, failed=answer.set_exception).start()
        return answer

    def _judge(self, answer: Future[frozenset[int] | None]) -> frozenset[int]:
        try:
            owned = answer.result()
        except KafkaException:
            owned = None
        if owned is None:
            self._since = None
            return _NONE
        unowned = self._all - owned
        if not unowned:
            self._due = float("inf")
            return _NONE
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since < self._patience:
            return _NONE
        self._begin()
        return unowned
