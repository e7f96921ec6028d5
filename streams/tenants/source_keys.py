"""A source's signing keys in its record: the newest comes first, and older ones have an end.

A key holds either its secret, sealed and bound to tenant and source, or a reference to a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.serde.records import SigningKey, TenantRecord
from streams.vault.key_encryption import Vault

MOST_KEYS = 8
"""One source has at most this many keys at once, because each is tried on every request."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a secret, in place of the secret itself: `env:NAME` or `file:/path`."""

    text: str


Secret = bytes | Reference


def signing_key(vault: Vault, tenant_id: str, source: str, secret: Secret) -> SigningKey:
    if isinstance(secret, Reference):
        return SigningKey(None, secret.text)
    return SigningKey(vault.seal(tenant_id, secret_purpose(source), secret))


def holds(key: SigningKey, now: int) -> bool:
    """Whether a key verifies at a time in milliseconds: it does until just before its end.

    Every ingress decides by its own clock.
    """
    return key.until is None or now < key.until


def rotated(
    keys: Sequence[SigningKey], newest: SigningKey, until: int, now: int
) -> tuple[SigningKey, ...]:
    """The keys after a rotation: `newest`, then the living ones; open-ended ones end at `until`."""
    older = (key if key.until is not None else replace(key, until=until) for key in keys)
    return (newest, *(key for key in older if holds(key, now)))


def open_secret(vault: Vault, record: TenantRecord, sealed: bytes) -> bytes:
    """The secret of one of the record's keys.

    Raises:
        VaultError: the secret was sealed under another vault key.
    """
    return vault.open(record.tenant_id, secret_purpose(record.id), sealed)


def secret_purpose(source: str) -> str:
    """The purpose to which a source's sealed secret is bound."""
    return f"source secret {source}"
