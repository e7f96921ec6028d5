"""The table of sources is the fold of its records, and no record breaks it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from support.webhooks import SECRET, VAULT, source, tenant

from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.errors import PoisonRecord
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.tenants.settings import Rate
from streams.tenants.source_keys import rotated, signing_key
from streams.vault.key_encryption import local_vault


@pytest.fixture
def table() -> SourceTable:
    return SourceTable(VAULT, References())


def test_a_source_is_found_under_its_own_tenant_alone(table: SourceTable) -> None:
    table.apply(*source("acme", "zendesk", "zendesk"))
    found = table.lookup("acme", "zendesk")
    assert found is not None
    assert (found.tenant_id, found.name, found.secrets(0)) == ("acme", "zendesk", {0: SECRET})
    assert table.lookup("bolt", "zendesk") is None
    assert table.lookup("acme", "github") is None


def test_a_sealed_secret_moved_to_another_source_does_not_open(table: SourceTable) -> None:
    moved = replace(TENANT.decode(source("acme", "shop", "hmac-sha256")[1]), id="other")
    with pytest.raises(PoisonRecord, match="sealed_elsewhere"):
        table.apply(tenant_key("acme", "source", "other"), TENANT.encode(moved))


def test_a_source_that_comes_after_its_tenants_erasure_stays_closed(table: SourceTable) -> None:
    table.apply(*tenant("acme", rate={"count": 5, "seconds": 1}))
    table.apply(*source("acme", "shop", "hmac-sha256"))
    mark = TenantRecord("acme", "erasure", "", True, "{}")
    table.apply(tenant_key("acme", "erasure", ""), TENANT.encode(mark))
    assert table.rates == {}
    table.apply(*source("acme", "shop", "hmac-sha256"))
    assert table.lookup("acme", "shop") is None


def test_a_disabled_tenants_source_is_not_named(table: SourceTable) -> None:
    table.apply(*tenant("gone", disabled=True))
    table.apply(*source("gone", "shop", "hmac-sha256"))
    assert table.known("gone", "shop") == ("gone", None)


def test_the_newest_record_of_a_source_stands(table: SourceTable) -> None:
    table.apply(*source("acme", "hooks", "zendesk"))
    table.apply(*source("acme", "hooks", "github", [b"new", b"old"]))
    found = table.lookup("acme", "hooks")
    assert found is not None
    assert (found.settings.scheme, found.secrets(0)) == ("github", {0: b"new", 1: b"old"})


def test_an_old_secret_stops_verifying_by_itself_when_its_overlap_ends(table: SourceTable) -> None:
    key, value = source("acme", "hooks", "github", [b"old"])
    record = TENANT.decode(value)
    newest = signing_key(VAULT, "acme", "hooks", b"new")
    keys = rotated(record.keys, newest, until=60_000, now=1)
    table.apply(key, TENANT.encode(replace(record, keys=keys)))
    found = table.lookup("acme", "hooks")
    assert found is not None
    assert found.secrets(59.999) == {0: b"new", 1: b"old"}
    assert found.secrets(60.0) == {0: b"new"}


def test_a_tenant_s_rate_is_known_until_its_record_has_none(table: SourceTable) -> None:
    table.apply(*tenant("acme", rate={"count": 6, "seconds": 60}))
    assert table.rates == {"acme": Rate(count=6, seconds=60)}
    table.apply(*tenant("acme"))
    assert table.rates == {}


@pytest.mark.parametrize("settings", [{"rate": {"count": 0, "seconds": 1}}, {"colour": "red"}])
def test_a_tenant_whose_settings_cannot_be_used_is_closed(
    table: SourceTable, settings: dict[str, Any]
) -> None:
    table.apply(*source("acme", "zendesk", "zendesk"))
    with pytest.raises(PoisonRecord, match="bad_tenant"):
        table.apply(*tenant("acme", **settings))
    assert table.lookup("acme", "zendesk") is None


def test_secrets_do_not_stand_in_a_sources_text(table: SourceTable) -> None:
    table.apply(*source("acme", "hooks", "zendesk", [b"hunter2"]))
    assert "hunter2" not in repr(table.lookup("acme", "hooks"))


def test_a_deleted_or_disabled_source_is_not_found(table: SourceTable) -> None:
    for name in ("one", "two", "three"):
        table.apply(*source("acme", name, "zendesk"))
    table.apply(tenant_key("acme", "source", "one"), None)
    key, value = source("acme", "two", "zendesk")
    table.apply(key, TENANT.encode(replace(TENANT.decode(value), disabled=True)))
    found = [name for name in ("one", "two", "three") if table.lookup("acme", name)]
    assert found == ["three"]


def test_a_closed_source_or_tenant_says_why_until_it_is_open_again(table: SourceTable) -> None:
    assert table.why_closed("acme", "shop") == "unknown_tenant"
    table.apply(*tenant("acme"))
    assert table.why_closed("acme", "shop") == "unknown_source"
    key, value = source("acme", "shop", "hmac-sha256")
    for closing, why in (
        (replace(TENANT.decode(value), disabled=True), "disabled_source"),
        (replace(TENANT.decode(value), body="[]"), "unusable_source"),
    ):
        with suppress(PoisonRecord):
            table.apply(key, TENANT.encode(closing))
        assert (table.why_closed("acme", "shop"), table.lookup("acme", "shop")) == (why, None)
        assert table.known("acme", "shop") == ("acme", "shop")
        table.apply(key, value)
        assert table.why_closed("acme", "shop") is None
    table.apply(key, None)
    assert table.why_closed("acme", "shop") == "unknown_source"
    with pytest.raises(PoisonRecord):
        table.apply(*tenant("acme", colour="red"))
    assert table.why_closed("acme", "shop") == "unusable_tenant"
    table.apply(*tenant("acme", disabled=True))
    assert table.why_closed("acme", "shop") == "disabled_tenant"
    table.apply(tenant_key("acme", "tenant", ""), None)
    assert table.why_closed("acme", "shop") == "unknown_tenant"
    assert table.why_closed("", "shop") == "no_tenant"


def test_a_disabled_tenant_has_no_source_until_it_is_enabled_again(table: SourceTable) -> None:
    table.apply(*tenant("acme", disabled=True))
    table.apply(*source("acme", "zendesk", "zendesk"))
    table.apply(*source("bolt", "zendesk", "zendesk"))
    assert table.lookup("acme", "zendesk") is None
    assert table.lookup("bolt", "zendesk") is not None
    table.apply(*tenant("acme"))
    assert table.lookup("acme", "zendesk") is not None


def test_a_deleted_tenant_takes_its_sources_along(table: SourceTable) -> None:
    table.apply(*source("acme", "zendesk", "zendesk"))
    table.apply(tenant_key("acme", "tenant", ""), None)
    assert table.lookup("acme", "zendesk") is None


def _with(body: dict[str, object]) -> bytes:
    record = TENANT.decode(source("acme", "zendesk", "zendesk")[1])
    return TENANT.encode(replace(record, body=orjson.dumps(body).decode()))


KEY, GOOD = source("acme", "zendesk", "zendesk")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (KEY, b"no frame", "undecodable"),
        (KEY, GOOD[:-3], "undecodable"),
        (None, GOOD, "misaddressed"),
        (b"acme", GOOD, "misaddressed"),
        (b"\xff\0source\0zendesk", GOOD, "misaddressed"),
        (tenant_key("bolt", "source", "zendesk"), GOOD, "misaddressed"),
        (KEY, _with({"scheme": "rot13"}), "bad_source"),
        (KEY, _with({"scheme": "zendesk", "secret": "hunter2"}), "bad_source"),
        (KEY, _with({"scheme": "zendesk", "options": {"secret": "hunter2"}}), "bad_source"),
        (KEY, _with({"scheme": "zendesk", "mapping": {"subject": "a..b"}}), "bad_source"),
        (
            KEY,
            source("acme", "zendesk", "zendesk", vault=local_vault(b"x" * 32))[1],
            "sealed_elsewhere",
        ),
    ],
)
def test_a_record_that_cannot_be_used_is_poison_and_closes_its_source(
    table: SourceTable, key: bytes | None, value: bytes, reason: str
) -> None:
    table.apply(KEY, GOOD)
    with pytest.raises(PoisonRecord) as caught:
        table.apply(key, value)
    assert caught.value.reason == reason
    assert "hunter2" not in str(caught.value)
    # What it was to change, perhaps a secret taken back, must not go on; of others nothing ends.
    assert (table.lookup("acme", "zendesk") is None) == (key == KEY)
    table.apply(KEY, GOOD)
    assert table.lookup("acme", "zendesk") is not None


def test_disabling_closes_a_source_whose_settings_no_longer_fit(table: SourceTable) -> None:
    table.apply(KEY, GOOD)
    unfit = TENANT.decode(_with({"scheme": "zendesk", "options": {"headr": "X"}}))
    table.apply(KEY, TENANT.encode(replace(unfit, disabled=True, keys=())))
    assert table.lookup("acme", "zendesk") is None


def test_a_tenant_is_closed_by_a_record_of_it_that_cannot_be_read(table: SourceTable) -> None:
    table.apply(KEY, GOOD)
    with pytest.raises(PoisonRecord):
        table.apply(tenant_key("acme", "tenant", ""), b"no frame")
    assert table.lookup("acme", "zendesk") is None
    table.apply(*tenant("acme"))
    assert table.lookup("acme", "zendesk") is not None


def test_a_record_whose_settings_are_no_json_is_poison(table: SourceTable) -> None:
    broken = replace(TENANT.decode(GOOD), body="{")
    with pytest.raises(PoisonRecord, match="not JSON"):
        table.apply(KEY, TENANT.encode(broken))
