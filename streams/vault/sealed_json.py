"""Seals values of a tenant that stand in records: what a person is asked to approve.

They are sealed under the tenant's newest data key, so that its erasure destroys them, too. A tenant
that never sent a body has no data key. Then each value has a key of its own, which the tenant's key
of the vault wraps.
"""

from __future__ import annotations

import os
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams import user_json
from streams.errors import PermanentError, VaultError
from streams.serde.records import Sealed
from streams.serde.sizes import NONCE_BYTES
from streams.vault.data_key import DataKey
from streams.vault.key_encryption import KEY_BYTES, Vault
from streams.vault.keyring import DataKeyring
from streams.vault.opening import find_key

_TAG_BYTES = 16


def seal_json(
    key: DataKey | None, vault: Vault, tenant_id: str, purpose: str, value: Any
) -> Sealed:
    """Seal a value under a data key, or, without one, under the tenant's key of the vault.

    `purpose` names its place: the value opens only there.

    Raises:
        VaultError: the vault does not have the key that wraps the data key.
        TypeError: the value is not JSON.
    """
    plain = user_json.write(value)
    if key is not None:
        return Sealed(key.key_id, key.seal(purpose, 0, plain))
    secret, nonce = AESGCM.generate_key(KEY_BYTES * 8), os.urandom(NONCE_BYTES)
    wrapped = vault.seal(tenant_id, purpose, secret)
    sealed = AESGCM(secret).encrypt(nonce, plain, purpose.encode())
    return Sealed("", len(wrapped).to_bytes(2) + wrapped + nonce + sealed)


def open_json(
    key: DataKey | None, vault: Vault, tenant_id: str, purpose: str, sealed: Sealed
) -> Any:
    """The value; `key` is the data key that `sealed` names, None for none.

    Raises:
        VaultError: it belongs to another tenant or place, or its key is not known here.
    """
    if key is None:
        return user_json.read(_opened_by_vault(vault, tenant_id, purpose, sealed.data))
    size = len(sealed.data) - NONCE_BYTES - _TAG_BYTES
    return user_json.read(key.open(purpose, [sealed.data], size))


def _opened_by_vault(vault: Vault, tenant_id: str, purpose: str, data: bytes) -> bytes:
    end = 2 + int.from_bytes(data[:2])
    secret = vault.open(tenant_id, purpose, data[2:end])
    nonce, sealed = data[end : end + NONCE_BYTES], data[end + NONCE_BYTES :]
    try:
        return AESGCM(secret).decrypt(nonce, sealed, purpose.encode())
    except (InvalidTag, ValueError) as error:
        raise VaultError(f"{purpose} of tenant {tenant_id} is damaged") from error


async def open_with(keyring: DataKeyring, tenant_id: str, purpose: str, sealed: Sealed) -> Any:
    """The value, opened by what a process knows of the tenant's keys.

    Raises:
        PermanentError: it cannot be opened, or its tenant is erased.
        TransientError: its key is not known here now.
    """
    key = await find_key(keyring, tenant_id, sealed.key_id) if sealed.key_id else None
    try:
        keyring.newest(tenant_id)  # without a key, this alone tells that the tenant is erased
        return open_json(key, keyring.vault, tenant_id, purpose, sealed)
    except VaultError as error:
        raise PermanentError(str(error)) from error


def seal_with(keyring: DataKeyring, tenant_id: str, purpose: str, value: Any) -> Sealed:
    """Seal a value under the tenant's newest data key that is known here.

    Raises:
        PermanentError: the tenant is erased, or its key does not open here.
    """
    try:
        return seal_json(keyring.newest(tenant_id), keyring.vault, tenant_id, purpose, value)
    except VaultError as error:
        raise PermanentError(str(error)) from error
