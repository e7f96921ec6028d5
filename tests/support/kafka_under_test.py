"""The Kafka that a test runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.broker.embedded import EmbeddedKafka


@dataclass(frozen=True)
class KafkaUnderTest:
    """`client_settings` are librdkafka's, without `bootstrap.servers`."""

    bootstrap: str
    client_settings: dict[str, str] = field(default_factory=dict)
    embedded: EmbeddedKafka | None = None

    def client(self, **settings: str | int | float | bool) -> dict[str, str | int | float | bool]:
        """A whole client configuration; keyword `group_id` becomes `group.id`."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": self.bootstrap, **self.client_settings, **named}
