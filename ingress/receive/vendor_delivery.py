"""Takes in a delivery that the operator has made and signed, to test a source.

It goes the way of a delivery from where a request has been read: the signature is verified under
the source's settings and newest key, the body is normalized by its mapping, and the event is
routed and stored, or its body is quarantined. The port, the tenant's rate and the caches of an
ingress are not on this way.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from multidict import CIMultiDict, CIMultiDictProxy

from ingress.receive import headers as heads
from ingress.receive.authentication import Authenticated, Authenticator
from ingress.receive.duplicates import Duplicates, Receipt
from ingress.receive.event import Event, Facts, routed
from ingress.receive.event_writer import EventWriter
from ingress.receive.headers import Headers
from ingress.receive.problems import BACKLOG_FULL, TOO_LARGE, Refused
from ingress.receive.quarantine import Quarantine
from ingress.schemes import SignedRequest
from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.errors import Misfit, PoisonRecord
from streams.event_admission import Full, Taken
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault


class VendorDelivery:
    """Takes in deliveries for whatever source a record describes."""

    def __init__(
        self,
        writer: EventWriter,
        quarantine: Quarantine,
        duplicates: Duplicates,
        vault: Vault,
        topology: Topology,
    ) -> None:
        self._writer = writer
        self._quarantine = quarantine
        self._duplicates = duplicates
        self._vault = vault
        self._topology = topology

    async def take_in(
        self, record: TenantRecord, delivery: SignedRequest, event_id: str, full: Full
    ) -> Taken:
        """See `Admission.deliver`."""
        headers = CIMultiDictProxy(CIMultiDict(delivery.headers))
        facts = heads.facts(headers)
        try:
            sender = self._authenticated(record, delivery)
            event = self._event(sender, headers, facts, delivery.body, event_id)
            return await self._stored(event, full)
        except Misfit as misfit:
            kept = await self._quarantine.keep(
                sender.source, headers, sender.verified, facts, delivery.body, misfit
            )
            return Taken("quarantined", kept, reason=misfit.reason, detail=str(misfit))
        except Refused as refused:
            problem, why = refused.problem, refused.detail or refused.problem.title
            return Taken("refused", reason=problem.name, cause=refused.cause, detail=why)

    def _authenticated(self, record: TenantRecord, delivery: SignedRequest) -> Authenticated:
        """The source of a record, if it takes the delivery.

        Raises:
            Refused: 401, as an ingress would answer it; 413, the body is larger than it takes.
        """
        # Older keys may be references, which only an ingress resolves.
        newest = replace(record, keys=record.keys[:1])
        table = SourceTable(self._vault, References())
        with suppress(PoisonRecord):  # it is closed then, which the 401 says
            table.apply(tenant_key(record.tenant_id, "source", record.id), TENANT.encode(newest))
        sender = Authenticator(table).authenticate(record.tenant_id, record.id, delivery)
        most = sender.source.settings.max_body_bytes
        if len(delivery.body) > most:
            raise Refused(TOO_LARGE, f"at most {most} bytes are accepted")
        return sender

    def _event(
        self, sender: Authenticated, headers: Headers, facts: Facts, body: bytes, event_id: str
    ) -> Event:
        source = sender.source
        normalized = source.normalizer.normalize(headers, body, sender.verified, event_id)
        return routed(
            self._topology,
            source.tenant_id,
            source.name,
            normalized,
            facts,
            body,
            callback_url=source.settings.callback_url,
            event_id=event_id,
        )

    async def _stored(self, event: Event, full: Full) -> Taken:
        envelope = event.envelope
        if event.job_type is not None and (depth := full(envelope.tenant_id, event.job_type)):
            raise Refused(BACKLOG_FULL, cause=depth.line.scope)

        async def store() -> Receipt:
            await self._writer.store(event)
            return Receipt(envelope.event_id, event.job_id)

        receipt, repeated = await self._duplicates.once(envelope.fingerprint, store)
        return Taken(
            "duplicate" if repeated else "accepted",
            receipt.event_id,
            receipt.job_id,
            envelope.event_type,
            envelope.routed,
        )
