"""Sealed values open in their own place alone, with a data key and without one."""

from __future__ import annotations

import dataclasses

import pytest

from streams.errors import Erased, PermanentError, VaultError
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import local_vault
from streams.vault.keyring import DataKeyring
from streams.vault.sealed_json import open_json, open_with, seal_json, seal_with

VAULT = local_vault(b"v" * 32)
VALUE = {"prompt": "Refund ch_1?", "arguments": [{"amount": 82_000}]}


@pytest.mark.parametrize("with_key", [True, False])
def test_a_value_opens_for_its_tenant_and_place_alone(with_key: bool) -> None:
    key = DataKey(VAULT, new_key_record(VAULT, "acme")) if with_key else None
    sealed = seal_json(key, VAULT, "acme", "apr_1", VALUE)
    assert b"Refund" not in sealed.data
    assert open_json(key, VAULT, "acme", "apr_1", sealed) == VALUE
    with pytest.raises(VaultError):
        open_json(key, VAULT, "acme", "apr_2", sealed)
    if key is None:
        with pytest.raises(VaultError):
            open_json(key, VAULT, "other", "apr_1", sealed)
    damaged = dataclasses.replace(sealed, data=sealed.data[:-1] + b"?")
    with pytest.raises(VaultError):
        open_json(key, VAULT, "acme", "apr_1", damaged)


async def test_the_newest_data_key_seals_and_an_erasure_ends_it() -> None:
    keyring, record = DataKeyring(VAULT), new_key_record(VAULT, "acme")
    early = seal_with(keyring, "acme", "apr_1", VALUE)
    assert early.key_id == ""
    assert await open_with(keyring, "acme", "apr_1", early) == VALUE
    keyring.apply(tenant_key("acme", "data_key", record.id), TENANT.encode(record))
    sealed = seal_with(keyring, "acme", "apr_1", VALUE)
    assert sealed.key_id == record.id
    assert await open_with(keyring, "acme", "apr_1", sealed) == VALUE
    erased = dataclasses.replace(record, kind="erasure", id="", secrets=())
    keyring.apply(tenant_key("acme", "erasure", ""), TENANT.encode(erased))
    with pytest.raises(PermanentError, match=str(Erased("acme"))):
        seal_with(keyring, "acme", "apr_1", VALUE)
    for each in (sealed, early):
        with pytest.raises(PermanentError):
            await open_with(keyring, "acme", "apr_1", each)
