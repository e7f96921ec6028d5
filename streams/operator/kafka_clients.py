"""What every Kafka client of the operator is set to, over the settings all processes share."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import AdminClient

from streams.settings import Settings

STAGE: Final = "operator"

CLIENT: Final[dict[str, Any]] = {
    # librdkafka would repeat every failed connection; that Kafka is away is said once, by us.
    "log_level": 0,
    # Its default of 10 s would add to every outage (G8).
    "reconnect.backoff.max.ms": 1_000,
}


def admin_client(settings: Settings) -> AdminClient:
    """An admin client that finds new leaders within a second: it caches them for 5 minutes."""
    return AdminClient(settings.client(**CLIENT, **{"topic.metadata.refresh.interval.ms": 1_000}))
