"""The book of data keys is the fold of `tenants`, and an erased tenant stays without keys."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import orjson
import pytest
from support.webhooks import VAULT, source, tenant

from streams.errors import Erased, PoisonRecord, VaultError
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord
from streams.vault.data_key import DataKey, new_key_record, period_now
from streams.vault.key_encryption import Vault, local_vault
from streams.vault.keyring import DataKeyring

Kept = tuple[bytes, bytes]


@pytest.fixture
def book() -> DataKeyring:
    return DataKeyring(VAULT)


def key(tenant_id: str = "acme", vault: Vault = VAULT, period: int | None = None) -> TenantRecord:
    record = new_key_record(vault, tenant_id)
    wanted = period_now() if period is None else period
    return replace(record, body=orjson.dumps({"period": wanted}).decode())


def put(book: DataKeyring, record: TenantRecord) -> TenantRecord:
    book.apply(tenant_key(record.tenant_id, record.kind, record.id), TENANT.encode(record))
    return record


def erase(book: DataKeyring, tenant_id: str) -> None:
    put(book, TenantRecord(tenant_id, "erasure", "", True, "{}"))


def known(found: Future[DataKey]) -> str:
    return found.result(0).key_id


def test_a_key_is_found_by_its_tenant_and_id(book: DataKeyring) -> None:
    one, two = put(book, key()), put(book, key("bolt"))
    assert known(book.find("acme", one.id)) == one.id
    assert not book.find("acme", two.id).done()


def test_of_a_periods_keys_the_first_seals_and_all_open(book: DataKeyring) -> None:
    assert book.current("acme") is None
    one, two = put(book, key()), put(book, key())
    current = book.current("acme")
    assert current is not None
    assert current.key_id == one.id
    assert known(book.find("acme", two.id)) == two.id


def test_a_past_periods_key_opens_and_seals_no_more(
    book: DataKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    past, now = put(book, key(period=period_now() - 1)), put(book, key())
    assert book.current("acme") is not None
    monkeypatch.setattr("streams.vault.keyring.period_now", lambda: period_now() + 1)
    assert book.current("acme") is None
    assert [known(book.find("acme", each.id)) for each in (past, now)] == [past.id, now.id]


def test_who_only_seals_forgets_the_keys_of_past_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    book = DataKeyring(VAULT, seals_only=True)
    old, past, now = (put(book, key(period=period_now() - age)) for age in (2, 1, 0))
    assert not book.find("acme", old.id).done()
    assert [known(book.find("acme", each.id)) for each in (past, now)] == [past.id, now.id]
    late = key(period=period_now() - 5)
    waiting = book.find("acme", late.id)
    put(book, late)
    assert known(waiting) == late.id
    next_ = period_now() + 1
    monkeypatch.setattr("streams.vault.keyring.period_now", lambda: next_)
    newest = put(book, key(period=next_))
    assert not book.find("acme", past.id).done()
    assert known(book.find("acme", newest.id)) == newest.id


def test_a_key_under_an_unknown_key_encryption_key_does_not_seal(book: DataKeyring) -> None:
    foreign = put(book, key(vault=local_vault(b"x" * 32)))
    assert book.current("acme") is None
    with pytest.raises(VaultError, match="TIDEGATE_VAULT_KEY_FILE"):
        book.find("acme", foreign.id).result(0).open("evt", [b"x" * 40], 1)
    own = put(book, key())
    put(book, key(vault=local_vault(b"x" * 32)))
    current = book.current("acme")
    assert current is not None
    assert current.key_id == own.id


def test_who_asks_before_a_key_is_known_gets_it_when_it_comes(book: DataKeyring) -> None:
    record = key()
    one, two, gone = (book.find("acme", record.id) for _ in range(3))
    gone.cancel()
    assert not one.done()
    put(book, record)
    assert [known(one), known(two)] == [record.id] * 2
    assert not book._waiting


def test_a_deleted_key_is_found_no_more(book: DataKeyring) -> None:
    record = put(book, key())
    book.apply(tenant_key("acme", "data_key", record.id), None)
    assert book.current("acme") is None
    assert not book.find("acme", record.id).done()


def test_an_erased_tenant_has_no_key_and_gets_none(book: DataKeyring) -> None:
    before, other = put(book, key()), put(book, key("bolt"))
    late = key()
    waiting = book.find("acme", late.id)
    erase(book, "acme")
    assert isinstance(waiting.exception(0), Erased)
    put(book, late)
    put(book, before)
    assert book.current("acme") is None
    for record in (before, late):
        with pytest.raises(Erased, match="tenant acme was erased"):
            book.find("acme", record.id).result(0)
    assert known(book.find("bolt", other.id)) == other.id


def test_nothing_takes_an_erasure_back(book: DataKeyring) -> None:
    erase(book, "acme")
    book.apply(*tenant("acme"))
    book.apply(tenant_key("acme", "tenant", ""), None)
    put(book, key())
    assert book.current("acme") is None


def test_an_erasure_that_cannot_be_read_erases(book: DataKeyring) -> None:
    put(book, key())
    book.apply(tenant_key("acme", "erasure", ""), b"no frame")
    assert book.current("acme") is None


def test_records_of_other_kinds_and_what_is_no_record_change_nothing(book: DataKeyring) -> None:
    book.apply(*source("acme", "shop", "github"))
    book.apply(None, b"")
    book.apply(b"\xff", b"")
    assert book.current("acme") is None


def test_a_key_under_anothers_address_is_poison(book: DataKeyring) -> None:
    record = key()
    with pytest.raises(PoisonRecord, match="misaddressed"):
        book.apply(tenant_key("bolt", "data_key", record.id), TENANT.encode(record))
    assert book.current("bolt") is None


def test_a_data_key_is_for_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1_800_000_000
    monkeypatch.setattr("streams.vault.data_key.time.time", lambda: at)
    first = period_now()
    at += 7 * 86_400
    assert period_now() == first + 1
