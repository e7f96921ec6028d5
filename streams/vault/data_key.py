"""A data key seals a tenant's raw bodies of one period; the vault seals the data key.

It is a record on `tenants`, so that it can be destroyed: then no body under it can be opened.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams.errors import PoisonRecord, VaultError
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.serde.sizes import NONCE_BYTES
from streams.vault.key_encryption import KEY_BYTES, Vault

PERIOD_SECONDS = 7 * 86_400
"""How long a key seals new bodies. In a month of 4,000 events a second one key would exceed the
2^32 messages that random nonces allow (NIST SP 800-38D, 8.3)."""


def period_now() -> int:
    """The current period, counted from the epoch."""
    return int(time.time()) // PERIOD_SECONDS


def key_purpose(key_id: str) -> str:
    """The purpose under which a data key is wrapped."""
    return f"data key {key_id}"


def new_key_record(vault: Vault, tenant_id: str) -> TenantRecord:
    """The record of a new random key for the current period."""
    key_id = f"key_{secrets.token_hex(8)}"
    wrapped = vault.seal(tenant_id, key_purpose(key_id), AESGCM.generate_key(KEY_BYTES * 8))
    body = orjson.dumps({"period": period_now()}).decode()
    now = wall_ms()
    return TenantRecord(tenant_id, "data_key", key_id, False, body, (wrapped,), now)


class DataKey:
    """One tenant's key of one period; unwrapped at its first use, safe in threads.

    Every chunk is bound to tenant, event, key and its number, so it opens only in its own place.
    """

    __slots__ = ("_cipher", "_vault", "_wrapped", "key_id", "period", "tenant_id")

    def __init__(self, vault: Vault, record: TenantRecord) -> None:
        try:
            self.period = int(orjson.loads(record.body)["period"])
            (self._wrapped,) = record.secrets
        except (ValueError, KeyError, TypeError):
            raise PoisonRecord("bad_data_key", "it has no period, or not one secret") from None
        self.tenant_id = record.tenant_id
        self.key_id = record.id
        self._vault = vault
        self._cipher: AESGCM | None = None

    def seal(self, event_id: str, index: int, plain: bytes | memoryview) -> bytes:
        """One chunk: nonce, ciphertext, tag."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.unwrap().encrypt(nonce, plain, self._bind(event_id, index))

    def open(self, event_id: str, chunks: Sequence[bytes], size: int) -> bytes:
        """The whole body of `size` bytes, from its chunks in their order.

        Raises:
            VaultError: a chunk does not belong to that event and place, or chunks are missing.
        """
        parts = (self._open(event_id, index, chunk) for index, chunk in enumerate(chunks))
        body = b"".join(parts)
        if len(body) != size:
            raise VaultError(
                f"the payload of {event_id} has {len(body)} bytes, not {size}: its reference is "
                "damaged; have it delivered again"
            )
        return body

    def unwrap(self) -> AESGCM:
        """The cipher under this key.

        Raises:
            VaultError: the vault does not have the key that wraps this one.
        """
        if self._cipher is None:
            secret = self._vault.open(self.tenant_id, key_purpose(self.key_id), self._wrapped)
            self._cipher = AESGCM(secret)
        return self._cipher

    def _open(self, event_id: str, index: int, sealed: bytes) -> bytes:
        nonce, ciphertext = sealed[:NONCE_BYTES], memoryview(sealed)[NONCE_BYTES:]
        cipher = self.unwrap()
        try:
            return cipher.decrypt(nonce, ciphertext, self._bind(event_id, index))
        except (InvalidTag, ValueError) as error:
            raise VaultError(
                f"cannot open chunk {index} of payload {event_id} of tenant {self.tenant_id} under "
                f"{self.key_id}: it belongs elsewhere, or is damaged; have it delivered again"
            ) from error

    def _bind(self, event_id: str, index: int) -> bytes:
        return "\0".join((self.tenant_id, event_id, self.key_id, str(index))).encode()
