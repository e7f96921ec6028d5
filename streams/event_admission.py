"""How an event enters the pipeline through the operator's API: a contract of two stages.

The operator decides who may submit or release what. The ingress normalizes, seals and writes, so
that such an event differs in nothing from one that was delivered. Stages do not import each other:
the command line gives the operator the ingress's implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from streams.kafka.clients import AwaitedProducer
from streams.serde.records import Quarantined
from streams.tenants.settings import SourceSettings
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is already normalized; `occurred_at` in milliseconds, UTC, `payload` JSON.

    Without a `dedup_key`, the hash of its payload is the key.
    """

    tenant_id: str
    source: str
    event_type: str
    dedup_key: str | None
    subject: str | None
    occurred_at: int | None
    attributes: dict[str, str]
    payload: bytes
    traceparent: str
    callback_url: str | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An event that is durable; `repeated` says that it is known to have been durable before."""

    event_id: str
    job_id: str | None
    repeated: bool = False


class Admission(Protocol):
    """Lets events in; belongs to one event loop. A call can be repeated safely within the dedup
    window: it writes the same fingerprint again, and dedup drops it."""

    async def submit(self, event: NewEvent) -> Admitted:
        """Write a new event.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still have been written.
            Erased: the tenant was erased.
        """

    async def release(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Admitted:
        """Write the event of a quarantined body, under its source's current settings.

        Raises:
            Misfit: it does not fit these either; nothing is written.
            Erased: the tenant was erased.
            KafkaUnavailable: it was not acknowledged; it may still have been written.
        """


Admissions = Callable[[AwaitedProducer, Vault, DataKeyring, Topology], Admission]
