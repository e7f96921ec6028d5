"""Seals the secrets of any record of `tenants` again, under the vault's first key."""

from __future__ import annotations

from dataclasses import replace

from streams.serde.records import SigningKey, TenantRecord
from streams.tenants import endpoints
from streams.tenants.source_keys import secret_purpose
from streams.vault import data_key
from streams.vault.key_encryption import Vault


def resealed(vault: Vault, record: TenantRecord) -> TenantRecord:
    """The record with every secret sealed under the vault's first key; equal if all were already.

    Raises:
        VaultError: a secret is sealed under none of the vault's keys.
    """
    of_secrets, of_keys = _purposes(record)

    def again(key: SigningKey) -> SigningKey:
        if key.sealed is None:
            return key
        return replace(key, sealed=vault.reseal(record.tenant_id, of_keys, key.sealed))

    secrets = (vault.reseal(record.tenant_id, of_secrets, each) for each in record.secrets)
    return replace(record, secrets=tuple(secrets), keys=tuple(map(again, record.keys)))


def _purposes(record: TenantRecord) -> tuple[str, str]:
    """What a record's `secrets` and the secrets of its `keys` are bound to."""
    match record.kind:
        case "data_key":
            return data_key.key_purpose(record.id), data_key.key_purpose(record.id)
        case "endpoint":
            return endpoints.headers_purpose(record.id), endpoints.key_purpose(record.id)
        case _:
            return secret_purpose(record.id), secret_purpose(record.id)
