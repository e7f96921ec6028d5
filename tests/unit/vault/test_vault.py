"""What the key-encryption keys seal, and which of them open it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from streams.errors import ConfigError, PoisonRecord, VaultError
from streams.serde.records import TenantRecord
from streams.settings import load_settings
from streams.tenants.endpoints import (
    EndpointSettings,
    endpoint_headers,
    endpoint_key,
    endpoint_record,
    open_key,
)
from streams.tenants.resealing import resealed
from streams.tenants.settings import SourceSettings, source_record
from streams.tenants.source_keys import Reference, open_secret
from streams.vault.data_key import DataKey, new_key_record
from streams.vault.key_encryption import Vault, local_vault, open_vault

OLD, NEW = b"o" * 32, b"n" * 32


class Kms:
    """A key that is nowhere in this process, behind the same two calls."""

    key_id = "kms/7"

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[str, str, bytes]] = {}

    def wrap(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        handle = b"%d" % len(self._kept)
        self._kept[handle] = (tenant_id, purpose, secret)
        return handle

    def unwrap(self, tenant_id: str, purpose: str, wrapped: bytes) -> bytes:
        for_tenant, for_purpose, secret = self._kept.get(wrapped, ("", "", b""))
        if (for_tenant, for_purpose) != (tenant_id, purpose):
            raise VaultError("the service refuses")
        return secret


class Same:
    """Wraps nothing, so that a chunk's associated data alone decides."""

    key_id = "kms/same"

    def wrap(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        return secret

    def unwrap(self, tenant_id: str, purpose: str, wrapped: bytes) -> bytes:
        return wrapped


def test_a_secret_opens_for_its_tenant_and_purpose_alone() -> None:
    vault = local_vault(NEW)
    sealed = vault.seal("acme", "source secret shop", b"hunter2")
    assert b"hunter2" not in sealed
    assert vault.open("acme", "source secret shop", sealed) == b"hunter2"
    for tenant_id, purpose in (("bolt", "source secret shop"), ("acme", "source secret zen")):
        with pytest.raises(VaultError, match="TIDEGATE_VAULT_KEY_FILE"):
            vault.open(tenant_id, purpose, sealed)


def test_the_first_key_seals_and_every_known_one_opens() -> None:
    sealed = local_vault(OLD).seal("acme", "p", b"secret")
    both = local_vault(NEW, OLD)
    assert both.open("acme", "p", sealed) == b"secret"
    assert local_vault(NEW).open("acme", "p", both.seal("acme", "p", b"x")) == b"x"


@pytest.mark.parametrize("kind", ["source", "data_key"])
def test_after_resealing_the_old_key_can_go(kind: str) -> None:
    old, both, new = local_vault(OLD), local_vault(NEW, OLD), local_vault(NEW)
    settings = SourceSettings(scheme="github")
    record = (
        source_record(old, "acme", "shop", settings, [b"two", b"one"], 1)
        if kind == "source"
        else new_key_record(old, "acme")
    )
    again = resealed(both, record)
    assert again != record
    assert resealed(both, again) == again
    assert resealed(new, again) == again
    with pytest.raises(VaultError):
        resealed(new, record)
    if kind == "source":
        opened = [open_secret(new, again, key.sealed or b"") for key in again.keys]
        assert opened == [b"two", b"one"]
    else:
        sealed = DataKey(old, record).seal("evt_1", 0, b"body")
        assert DataKey(new, again).open("evt_1", [sealed], 4) == b"body"


def test_after_resealing_an_endpoint_its_keys_and_headers_need_the_old_key_no_more() -> None:
    old, both, new = local_vault(OLD), local_vault(NEW, OLD), local_vault(NEW)
    newest, older, named = (
        endpoint_key(old, "acme", "crm", secret) for secret in (b"two", b"one", Reference("env:S"))
    )
    keys = (newest, replace(older, until=9), named)
    settings = EndpointSettings(url="https://crm.example/hook", set_at=1)
    record = endpoint_record(old, "acme", "crm", settings, keys, {"Authorization": "s3cret"}, 1)
    again = resealed(both, record)
    assert again != record
    assert resealed(new, again) == again
    with pytest.raises(VaultError):
        resealed(new, record)
    assert endpoint_headers(new, again) == {"Authorization": "s3cret"}
    opened = [open_key(new, again, key.sealed) for key in again.keys if key.sealed]
    assert opened == [b"two", b"one"]
    assert [(key.until, key.reference) for key in again.keys] == [
        (None, None),
        (9, None),
        (None, "env:S"),
    ]
    assert again.body == record.body  # or the delivery stage would take it for a PUT


def test_a_key_may_lie_in_a_service_of_its_own() -> None:
    vault = Vault(Kms(), *local_vault(OLD)._all)
    local = new_key_record(local_vault(OLD), "acme")
    again = resealed(vault, local)
    sealed = DataKey(local_vault(OLD), local).seal("evt_1", 0, b"body")
    assert DataKey(vault, again).open("evt_1", [sealed], 4) == b"body"
    assert vault.key_id == "kms/7"


def test_a_chunk_opens_only_for_its_tenant_event_key_and_place() -> None:
    vault = local_vault(NEW)
    record = new_key_record(vault, "acme")
    key = DataKey(vault, record)
    first, second = key.seal("evt_1", 0, b"he"), key.seal("evt_1", 1, b"llo")
    assert key.open("evt_1", [first, second], 5) == b"hello"
    moved: list[Callable[[], bytes]] = [
        lambda: key.open("evt_1", [second, first], 5),
        lambda: key.open("evt_2", [first, second], 5),
        lambda: key.open("evt_1", [first], 5),
        lambda: key.open("evt_1", [first, second[:-1]], 5),
        lambda: key.open("evt_1", [first, b""], 5),
        lambda: DataKey(vault, new_key_record(vault, "acme")).open("evt_1", [first, second], 5),
    ]
    for attempt in moved:
        with pytest.raises(VaultError):
            attempt()
    stolen = TenantRecord("bolt", "data_key", record.id, False, record.body, record.secrets)
    with pytest.raises(VaultError):
        DataKey(vault, stolen).open("evt_1", [first, second], 5)


@pytest.mark.parametrize("other", [("bolt", "key_1"), ("acme", "key_2")], ids=["tenant", "key"])
def test_a_chunk_is_bound_to_tenant_and_key_even_under_one_secret(other: tuple[str, str]) -> None:
    def named(tenant_id: str, id_: str) -> DataKey:
        record = TenantRecord(tenant_id, "data_key", id_, False, '{"period": 1}', (b"k" * 32,))
        return DataKey(Vault(Same()), record)

    sealed = named("acme", "key_1").seal("evt_1", 0, b"body")
    assert named("acme", "key_1").open("evt_1", [sealed], 4) == b"body"
    with pytest.raises(VaultError):
        named(*other).open("evt_1", [sealed], 4)


def test_a_data_key_has_256_bits() -> None:
    assert len(new_key_record(Vault(Same()), "acme").secrets[0]) == 32


def test_two_seals_of_one_secret_differ() -> None:
    vault = local_vault(NEW)
    assert vault.seal("acme", "p", b"x") != vault.seal("acme", "p", b"x")


def test_a_key_file_of_another_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 31)
    with pytest.raises(ConfigError, match="has 31 bytes"):
        open_vault(load_settings({"TIDEGATE_VAULT_KEY_FILE": str(tmp_path / "key")}))


def test_two_keys_and_two_seals_of_one_body_have_nothing_in_common() -> None:
    vault = local_vault(NEW)
    one, two = new_key_record(vault, "acme"), new_key_record(vault, "acme")
    assert one.id != two.id
    assert one.secrets != two.secrets
    key = DataKey(vault, one)
    assert key.seal("evt_1", 0, b"body") != key.seal("evt_1", 0, b"body")


@pytest.mark.parametrize(
    ("body", "wrapped"),
    [
        ("{", (b"",)),
        ("{}", (b"",)),
        ("[1]", (b"",)),
        ('{"period": null}', (b"",)),
        ('{"period": 1}', ()),
        ('{"period": 1}', (b"", b"")),
    ],
)
def test_a_data_key_that_cannot_be_understood_is_poison(
    body: str, wrapped: tuple[bytes, ...]
) -> None:
    record = TenantRecord("acme", "data_key", "key_1", False, body, wrapped)
    with pytest.raises(PoisonRecord, match="bad_data_key"):
        DataKey(local_vault(NEW), record)


def test_keys_come_from_files_or_from_the_environment(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("new.key", "old.key")]
    for file, key in zip(files, (NEW, OLD), strict=True):
        file.write_bytes(key)
    named = {"TIDEGATE_VAULT_KEY_FILE": ", ".join(map(str, files))}
    encoded = ",".join(base64.b64encode(key).decode() for key in (NEW, OLD))
    sealed = local_vault(OLD).seal("acme", "p", b"secret")
    for environ in (named, {"TIDEGATE_VAULT_KEYS": encoded}):
        settings = load_settings(environ)
        vault = open_vault(settings)
        assert vault.key_id == local_vault(NEW).key_id
        assert vault.open("acme", "p", sealed) == b"secret"
        assert encoded not in repr(settings)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, "TIDEGATE_VAULT_KEY_FILE is not set"),
        ({"TIDEGATE_VAULT_KEY_FILE": ""}, "TIDEGATE_VAULT_KEY_FILE is not set"),
        ({"TIDEGATE_VAULT_KEY_FILE": "/none/there"}, "cannot read /none/there"),
        ({"TIDEGATE_VAULT_KEYS": "c2hvcnQ="}, "TIDEGATE_VAULT_KEYS"),
        ({"TIDEGATE_VAULT_KEYS": "not base64!"}, "TIDEGATE_VAULT_KEYS"),
        ({"TIDEGATE_VAULT_KEYS": "eA==", "TIDEGATE_VAULT_KEY_FILE": "f"}, "both set"),
    ],
)
def test_keys_that_cannot_be_used_are_told_by_their_setting(
    environ: dict[str, str], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        open_vault(load_settings(environ))
    assert "c2hvcnQ" not in str(error.value)


def gauge(name: str) -> float | None:
    return REGISTRY.get_sample_value(name)


def test_a_process_tells_how_many_vault_keys_it_knows(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for path, key in zip(files, (OLD, NEW), strict=True):
        path.write_bytes(key)
    open_vault(load_settings({}, vault_key_file=",".join(map(str, files))))
    assert gauge("tidegate_vault_keys") == 2
    open_vault(load_settings({}, vault_key_file=files[1]))
    assert gauge("tidegate_vault_keys") == 1
