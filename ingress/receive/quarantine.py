"""Keeps signed bodies that do not fit their source, until an operator mends its mapping.

The sealed body goes to `payloads` first, then its record goes to `quarantine` under (tenant,
source, payload hash). The event's id follows from the same three values. So every repetition of a
body gets the same answer and stays one entry, whatever a process remembers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from prometheus_client import Counter

from ingress.receive.duplicates import Duplicates, Receipt
from ingress.receive.event import Facts
from ingress.receive.event_writer import EventWriter
from ingress.receive.sender import Sender
from ingress.schemes import Verified
from ingress.schemes.normalize import visible
from ingress.tenants.sources import Source
from streams.errors import Misfit
from streams.serde import ids
from streams.serde.codec import QUARANTINED
from streams.serde.keys import quarantine_key
from streams.serde.records import Quarantined

TOPIC = "quarantine"
_REMEMBERED = 10_000

MISFITS = Counter(
    "tidegate_ingress_misfits_total",
    "Signed bodies that did not fit their source's mapping and went to the quarantine",
    ["reason"],
)


class Quarantine:
    """Writes each body once while it is remembered; twins wait for the first."""

    def __init__(self, sender: Sender, writer: EventWriter) -> None:
        self._sender = sender
        self._writer = writer
        self._kept = Duplicates(entries=_REMEMBERED)

    async def keep(
        self,
        source: Source,
        headers: Mapping[str, str],
        verified: Verified,
        facts: Facts,
        body: bytes,
        misfit: Misfit,
    ) -> str:
        """The id of the event that the body may become, once all records are acknowledged.

        Raises:
            KafkaUnavailable: a record was not acknowledged; it may still have been written.
        """
        digest = hashlib.sha256(body).digest()
        event_id = ids.quarantined_event_id(source.tenant_id, source.name, digest)
        named = ((name, visible(headers.get(name))) for name in source.normalizer.headers)

        async def store() -> Receipt:
            ref = await self._writer.store_body(source.tenant_id, event_id, body)
            await self._write(
                Quarantined(
                    event_id=event_id,
                    tenant_id=source.tenant_id,
                    source=source.name,
                    reason=misfit.reason,
                    detail=str(misfit),
                    received_at=facts.received_at,
                    payload_hash=digest,
                    payload_ref=ref,
                    content_type=facts.content_type,
                    request_id=facts.request_id,
                    traceparent=facts.traceparent,
                    headers={name: value for name, value in named if value is not None},
                    message_id=verified.message_id,
                    signed_at=verified.timestamp,
                )
            )
            return Receipt(event_id, None)

        _, repeated = await self._kept.once(event_id.encode(), store)
        if not repeated:
            MISFITS.labels(misfit.reason).inc()
        return event_id

    async def _write(self, record: Quarantined) -> None:
        key = quarantine_key(record.tenant_id, record.source, record.payload_hash)
        partition = record.payload_ref.partition
        await self._sender.send(TOPIC, key, QUARANTINED.encode(record), partition=partition)
