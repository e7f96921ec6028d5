"""Members of a consumer group, as a test joins and counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, ConsumerGroupState
from confluent_kafka.admin import AdminClient

from streams.kafka.clients import consumer_config
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

_CLOSE_SECONDS = 10


@contextmanager
def static_member(settings: Settings, group: str, topic: str) -> Iterator[Consumer]:
    """The consumer of a process, which the process replaces once it starts.

    A close of a member that was replaced may never return. A process of ours ends itself then; a
    test leaves the thread behind.
    """
    static = {
        "group.instance.id": f"{group}-{settings.instance}",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    joined = Consumer(consumer_config(settings, group, **static))
    joined.subscribe([settings.topic_prefix + topic])
    try:
        yield joined
    finally:
        closing = DaemonThread("close-member", joined.close)
        closing.start()
        closing.stop(_CLOSE_SECONDS)


def members_at_rest(admin: AdminClient, group: str) -> int:
    """How many members a group has; 0 while it rebalances."""
    found = admin.describe_consumer_groups([group], request_timeout=10)[group].result()
    return len(found.members) if found.state == ConsumerGroupState.STABLE else 0
