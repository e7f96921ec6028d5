"""Makes the HTTP request of an attempt: body, headers and signatures."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Protocol

from streams.delivery.attempts import Attempt
from streams.delivery.egress.host_slots import HostSlots
from streams.delivery.egress.post import Post
from streams.delivery.message.formats import Rendered, render
from streams.delivery.message.message import Message
from streams.delivery.message.signing import headers
from streams.errors import MappingFailed, PermanentError
from streams.process.daemon_thread import in_daemon_thread
from streams.serde.delivery_records import Outgoing
from streams.serde.headers import is_traceparent
from streams.serde.records import PayloadRef, TenantRecord
from streams.tenants.endpoints import endpoint_headers, open_key
from streams.tenants.secret_reference import resolve
from streams.tenants.source_keys import holds
from streams.tracing.spans import current
from streams.vault.key_encryption import Vault

_KNOWN_ENDPOINTS = 10_000
_MAPPINGS_AT_ONCE = 2


class Bodies(Protocol):
    """Opens the sealed bodies of events."""

    async def open(self, tenant_id: str, event_id: str, ref: PayloadRef) -> bytes:
        """The raw body.

        Raises:
            PermanentError: the body is gone, or damaged.
            TransientError: the body cannot be read now.
        """


class Requests:
    """Makes requests; safe only in the sender's loop."""

    def __init__(self, vault: Vault, bodies: Bodies) -> None:
        self._vault = vault
        self._bodies = bodies
        self._mapping = HostSlots(_MAPPINGS_AT_ONCE)
        self._headers = lru_cache(_KNOWN_ENDPOINTS)(self._opened_headers)
        self._keys = lru_cache(_KNOWN_ENDPOINTS)(self._opened_keys)

    async def rendered(self, attempt: Attempt) -> Rendered:
        """The body of the request.

        Raises:
            PermanentError: no attempt can ever send this message.
            TransientError: its body cannot be read now.
        """
        row, message = attempt.row, await self._message(attempt.message)
        if row.format != "mapped":
            return render(message, row.format, None)
        try:
            # A mapping may take a second: it runs beside the loop, and few of them at once.
            async with self._mapping.of("", row.tenant_id, row.endpoint_id):
                return await in_daemon_thread(lambda: render(message, "mapped", row.mapping))
        except MappingFailed as error:
            raise PermanentError(str(error)) from error

    def signed(
        self, attempt: Attempt, rendered: Rendered, now: int
    ) -> tuple[Post, Collection[str]]:
        """The request, and the secrets in it, which no log may show; `now` is in milliseconds.

        Sign when it is sent: receivers refuse a signature that is minutes old.

        Raises:
            SignatureError, SecretUnresolved, VaultError: it cannot be signed now.
        """
        row, own = attempt.row, self._headers(attempt.endpoint)
        keys = self._secrets(attempt.endpoint, now)
        signed = headers(row.message_id, now, rendered.body, keys)
        parent = current() or row.traceparent or ""
        trace = {"traceparent": parent} if is_traceparent(parent) else {}
        all_ = {**own, "Content-Type": rendered.content_type, **trace, **signed}
        post = Post(
            row.tenant_id, attempt.url, tuple(all_.items()), rendered.body, attempt.timeout_seconds
        )
        return post, [*own.values(), *(key.decode(errors="replace") for key in keys)]

    async def _message(self, outgoing: Outgoing) -> Message:
        ref = outgoing.payload_ref
        if ref is None:
            data = outgoing.data or b""
        else:
            data = await self._bodies.open(outgoing.tenant_id, outgoing.event_id or "", ref)
        return Message(
            message_id=outgoing.message_id,
            tenant_id=outgoing.tenant_id,
            type=outgoing.type,
            source=outgoing.source,
            subject=outgoing.subject,
            time=outgoing.time,
            content_type=outgoing.content_type,
            data=data,
            attributes=outgoing.attributes,
            traceparent=outgoing.traceparent,
        )

    def _secrets(self, record: TenantRecord, now: int) -> list[bytes]:
        """The secrets that sign now, newest first; one by reference is looked up each time."""
        return [
            secret if key.reference is None else resolve(key.reference)
            for key, secret in zip(record.keys, self._keys(record), strict=True)
            if holds(key, now)
        ]

    def _opened_keys(self, record: TenantRecord) -> list[bytes]:
        return [
            b"" if key.sealed is None else open_key(self._vault, record, key.sealed)
            for key in record.keys
        ]

    def _opened_headers(self, record: TenantRecord) -> dict[str, str]:
        return endpoint_headers(self._vault, record)
