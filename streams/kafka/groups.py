"""The consumer groups of a cluster, as its brokers list them.

Asking a group's coordinator by an admin client can abort the whole process (librdkafka#4605): a
broker that cannot be asked yet, or a connection that ends, is enough. A list needs no coordinator.
"""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConsumerGroupListing


def listed_groups(admin: AdminClient, timeout: float) -> list[ConsumerGroupListing]:
    """All groups that the user may see, within so many seconds.

    Raises:
        KafkaException: a broker did not list its groups.
    """
    listed = admin.list_consumer_groups(request_timeout=timeout).result()
    if listed.errors:
        # They are no exceptions, yet Python raises them: no `except` would catch one.
        raise KafkaException(listed.errors[0])
    return list(listed.valid)
