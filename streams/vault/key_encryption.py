"""Key-encryption keys: they seal data keys and sources' secrets, and nothing larger.

The purpose of a sealed secret (tenant, purpose, key) is its associated data: it does not open under
any other. Raw bodies are sealed under data keys, see `streams/vault/data_key.py`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from prometheus_client import Gauge

from streams.errors import ConfigError, VaultError
from streams.serde.sizes import NONCE_BYTES
from streams.settings import Settings

KEY_BYTES = 32

VAULT_KEYS = Gauge(
    "tidegate_vault_keys", "Vault keys of this process; more than one while they are changed"
)


class KeyEncryption(Protocol):
    """One key-encryption key, wherever it is kept; safe in threads.

    `LocalKey` is the one that ships, and no setting chooses another. The protocol is the contract
    of a key in a service of its own (a cloud's KMS); a class that keeps it goes into the `Vault`
    that `open_vault` returns.

    Data keys are wrapped outside of event loops, and opened once in each process. The secrets of
    sources and endpoints are wrapped and opened in event loops, so a class that asks another host
    should remember what it has opened.
    """

    @property
    def key_id(self) -> str:
        """Names the key in messages and answers, and reveals nothing about it."""

    def wrap(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        """The secret sealed; at most 64 KiB. Opening needs the same tenant and purpose."""

    def unwrap(self, tenant_id: str, purpose: str, wrapped: bytes) -> bytes:
        """The secret.

        Raises:
            VaultError: another key, tenant or purpose, or damaged bytes.
        """


class LocalKey:
    """A key of 32 bytes in this process's memory.

    Each tenant's key is derived from it by HKDF-SHA256 (RFC 5869), and seals with AES-256-GCM under
    random 96-bit nonces (NIST SP 800-38D).
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.key_id = "kek_" + hashlib.sha256(b"tidegate key id" + key).hexdigest()[:12]
        self._cipher = lru_cache(maxsize=4096)(self._derive)

    def wrap(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        bound = self._bind(tenant_id, purpose)
        return nonce + self._cipher(tenant_id).encrypt(nonce, secret, bound)

    def unwrap(self, tenant_id: str, purpose: str, wrapped: bytes) -> bytes:
        nonce, ciphertext = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        bound = self._bind(tenant_id, purpose)
        try:
            return self._cipher(tenant_id).decrypt(nonce, ciphertext, bound)
        except (InvalidTag, ValueError) as error:
            raise VaultError(f"{purpose} of tenant {tenant_id}: not under {self.key_id}") from error

    def _derive(self, tenant_id: str) -> AESGCM:
        info = b"tidegate tenant key\0" + tenant_id.encode()
        return AESGCM(HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(self._key))

    def _bind(self, tenant_id: str, purpose: str) -> bytes:
        return "\0".join((tenant_id, purpose, self.key_id)).encode()


class Vault:
    """The key-encryption keys that a process knows: the first one seals, all of them open."""

    def __init__(self, first: KeyEncryption, *older: KeyEncryption) -> None:
        self._first = first
        self._all = (first, *older)

    @property
    def key_id(self) -> str:
        """The key that seals."""
        return self._first.key_id

    def is_current(self, tenant_id: str, purpose: str, sealed: bytes) -> bool:
        """Whether a secret is sealed under the first key."""
        try:
            self._first.unwrap(tenant_id, purpose, sealed)
        except VaultError:
            return False
        return True

    def seal(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        """Seal a secret under the first key; opening it needs the same `purpose`."""
        return self._first.wrap(tenant_id, purpose, secret)

    def open(self, tenant_id: str, purpose: str, sealed: bytes) -> bytes:
        """The secret.

        Raises:
            VaultError: sealed under none of the keys, for another tenant or purpose, or damaged.
        """
        for key in self._all:
            try:
                return key.unwrap(tenant_id, purpose, sealed)
            except VaultError:
                continue
        known = ", ".join(key.key_id for key in self._all)
        raise VaultError(
            f"cannot open {purpose} of tenant {tenant_id} under {known}: it was sealed under "
            "another key, or is damaged; add that key to TIDEGATE_VAULT_KEY_FILE"
        )

    def reseal(self, tenant_id: str, purpose: str, sealed: bytes) -> bytes:
        """The same secret under the first key; the very same bytes if it is sealed under it
        already.

        Raises:
            VaultError: see `open`.
        """
        if self.is_current(tenant_id, purpose, sealed):
            return sealed
        return self.seal(tenant_id, purpose, self.open(tenant_id, purpose, sealed))


def local_vault(*keys: bytes) -> Vault:
    """A vault of keys in memory, each of 32 bytes; the first seals."""
    return Vault(*map(LocalKey, keys))


def open_vault(settings: Settings) -> Vault:
    """The vault of a process, from `TIDEGATE_VAULT_KEY_FILE` or `TIDEGATE_VAULT_KEYS`.

    Raises:
        ConfigError: neither or both are set, or one key is not 32 bytes; it names the setting.
    """
    keys = _vault_keys(settings)
    VAULT_KEYS.set(len(keys))
    return local_vault(*keys)


def read_key(path: Path | None, setting: str) -> bytes:
    """A 32-byte key from a file.

    Raises:
        ConfigError: no path, no file, or another length; it names the setting.
    """
    if path is None:
        raise ConfigError(
            f"{setting} is not set: name a file of {KEY_BYTES} random bytes "
            f"(`head -c {KEY_BYTES} /dev/urandom > FILE`)"
        )
    try:
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{setting}: {path} has {len(key)} bytes, not {KEY_BYTES}")
    return key


def _vault_keys(settings: Settings) -> list[bytes]:
    files, given = settings.vault_key_file, settings.vault_keys
    if files and given:
        raise ConfigError("TIDEGATE_VAULT_KEY_FILE and TIDEGATE_VAULT_KEYS are both set: unset one")
    if given:
        return [_decoded(text) for text in given.get_secret_value().split(",")]
    return [read_key(path, "TIDEGATE_VAULT_KEY_FILE") for path in files or (None,)]


def _decoded(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"TIDEGATE_VAULT_KEYS: each key is {KEY_BYTES} bytes in base64, several are separated "
            f"by commas (`head -c {KEY_BYTES} /dev/urandom | base64` makes one)"
        )
    return key
