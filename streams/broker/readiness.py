"""Whether a node that was started serves its clients."""

from __future__ import annotations

from collections.abc import Mapping

from streams.broker import ports
from streams.broker.member import Member

_ANSWER_SECONDS = 1.0


def serves(member: Member, client_settings: Mapping[str, str]) -> bool:
    """Whether this very node answers a metadata request, as a broker of its cluster.

    A node that its controllers have not let in yet does not name itself.
    """
    if not ports.accepts(member.ports.clients):
        return False
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    address = f"{ports.HOST}:{member.ports.clients}"
    client = AdminClient({"bootstrap.servers": address, "log_level": 0, **client_settings})
    try:
        metadata = client.list_topics(timeout=_ANSWER_SECONDS)
    except KafkaException:
        return False
    return member.node_id in metadata.brokers and metadata.cluster_id == member.cluster_id
