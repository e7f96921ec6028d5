"""The contract between operator and ingress by which an event enters through the operator's API.

The operator decides which events may enter. The ingress normalizes, seals and writes them, so that
they do not differ from delivered events. Stages do not import each other: the command line hands
the ingress's implementation to the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from ingress.schemes import SignedRequest
from streams.kafka.clients import AwaitedProducer
from streams.limits.backlog import Depth
from streams.serde.records import Quarantined, TenantRecord
from streams.tenants.settings import SourceSettings
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is already normalized; `occurred_at` is in milliseconds UTC, `payload` is JSON.

    Without a `dedup_key` the hash of the payload is the key.
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
    """A durable event; `repeated` is True if it is known to have been durable before the call."""

    event_id: str
    job_id: str | None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Previewed:
    """An event that was not written; `occurred_at` is in milliseconds UTC.

    `job_id` is the job that it would have, None if no route matches it.
    """

    event_type: str
    subject: str | None
    occurred_at: int | None
    dedup_key: str
    attributes: dict[str, str]
    job_id: str | None


@dataclass(frozen=True, slots=True)
class Taken:
    """What an ingress would do with a delivery.

    What is quarantined or refused has a `reason`, as the quarantine and the rejections say it, and
    a `detail` in words; a 401 also has its `cause`. What is refused has no event.
    """

    outcome: Literal["accepted", "duplicate", "quarantined", "refused"]
    event_id: str | None = None
    job_id: str | None = None
    event_type: str | None = None
    routed: bool = False
    reason: str | None = None
    cause: str | None = None
    detail: str | None = None


Full = Callable[[str, str], Depth | None]
"""The cap on waiting jobs that lets no more of a tenant and a type in."""


class Admission(Protocol):
    """Lets events in; belongs to one event loop. Repeating a call is safe within the dedup window:
    it writes the same fingerprint again, and dedup drops it."""

    async def submit(self, event: NewEvent) -> Admitted:
        """Write a new event.

        Raises:
            KafkaUnavailable: it was not acknowledged; it may still have been written.
            Erased: the tenant was erased.
        """

    async def release(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Admitted:
        """Write the event of a quarantined body, under its source's current settings.

        Raises:
            Misfit: the body does not fit these either; nothing is written.
            Erased: the tenant was erased.
            KafkaUnavailable: it was not acknowledged; it may still have been written.
        """

    def preview(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Previewed:
        """Return the event that a quarantined body would be under these settings; write nothing.

        Raises:
            ConfigError: the mapping is none.
            Misfit: the body does not fit them.
        """

    async def deliver(
        self, source: TenantRecord, delivery: SignedRequest, event_id: str, full: Full
    ) -> Taken:
        """Take a delivery in as one that the source's vendor sends, under the source's newest key.

        Like a real one, a body that does not fit the source goes to the quarantine. `event_id` is
        that of the event, unless it is quarantined or known already.

        Raises:
            Erased: the tenant was erased.
            KafkaUnavailable: it was not acknowledged; it may still have been written.
        """


Admissions = Callable[[AwaitedProducer, Vault, DataKeyring, Topology], Admission]
