"""Writes events that come through the operator's API, not a webhook: `streams.event_admission`."""

from __future__ import annotations

import hashlib

from multidict import CIMultiDict

from ingress.receive.duplicates import Duplicates, Receipt, seconds_kept
from ingress.receive.event import Event, Facts, routed
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.receive.quarantine import Quarantine
from ingress.receive.sender import Sender
from ingress.receive.vendor_delivery import VendorDelivery
from ingress.schemes import SignedRequest, Verified
from ingress.schemes.normalize import Normalized, Normalizer
from streams.event_admission import Admitted, Full, NewEvent, Previewed, Taken
from streams.process.wall_clock import wall_ms
from streams.serde.records import Quarantined, TenantRecord
from streams.tenants.settings import SourceSettings
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault
from streams.vault.keyring import DataKeyring


class DirectAdmission:
    """Writes events in the same order as a webhook's: sealed body first, then its envelope."""

    def __init__(self, sender: Sender, vault: Vault, book: DataKeyring, topology: Topology) -> None:
        self._topology = topology
        keys = KeyMaker(sender, vault, book, topology.partitions)
        self._writer = EventWriter(sender, keys, topology.partitions)
        self._duplicates = Duplicates(seconds=seconds_kept(topology.window_ms))
        quarantine = Quarantine(sender, self._writer)
        self._vendor = VendorDelivery(self._writer, quarantine, self._duplicates, vault, topology)

    async def submit(self, event: NewEvent) -> Admitted:
        made = routed(
            self._topology,
            event.tenant_id,
            event.source,
            _normalized(event),
            Facts("application/json", None, event.traceparent, wall_ms()),
            event.payload,
            callback_url=event.callback_url,
        )

        async def store() -> Receipt:
            await self._writer.store(made)
            return Receipt(made.envelope.event_id, made.job_id)

        receipt, repeated = await self._duplicates.once(made.envelope.fingerprint, store)
        return Admitted(receipt.event_id, receipt.job_id, repeated)

    async def deliver(
        self, source: TenantRecord, delivery: SignedRequest, event_id: str, full: Full
    ) -> Taken:
        """See `Admission.deliver`."""
        return await self._vendor.take_in(source, delivery, event_id, full)

    async def release(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Admitted:
        """See `Admission.release`; seals the body anew, so that it is kept as long as its event."""
        made = self._released(record, settings, body)
        await self._writer.store(made)
        return Admitted(record.event_id, made.job_id)

    def preview(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Previewed:
        """See `Admission.preview`."""
        made = self._released(record, settings, body)
        envelope = made.envelope
        return Previewed(
            envelope.event_type,
            envelope.subject,
            envelope.occurred_at,
            envelope.dedup_key,
            dict(envelope.attributes),
            made.job_id,
        )

    def _released(self, record: Quarantined, settings: SourceSettings, body: bytes) -> Event:
        headers = CIMultiDict({**record.headers, "Content-Type": record.content_type})
        verified = Verified(0, record.signed_at, record.message_id)
        normalizer = Normalizer(settings.scheme, settings.mapping, settings.dedup_by)
        normalized = normalizer.normalize(headers, body, verified, record.event_id)
        facts = Facts(record.content_type, record.request_id, record.traceparent, wall_ms())
        return routed(
            self._topology,
            record.tenant_id,
            record.source,
            normalized,
            facts,
            body,
            callback_url=settings.callback_url,
            event_id=record.event_id,
        )


def _normalized(event: NewEvent) -> Normalized:
    digest = hashlib.sha256(event.payload)
    return Normalized(
        event_type=event.event_type,
        subject=event.subject,
        occurred_at=event.occurred_at,
        dedup_key=event.dedup_key or f"sha256:{digest.hexdigest()}",
        payload_hash=digest.digest(),
        delivery_id=None,
        attributes=event.attributes,
    )
