"""Since when the first vault key is in use, as the data keys tell it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from streams.api.read_model.database import Database
from streams.api.tenants import table as tenants
from streams.operator import key_age
from streams.operator.key_age import KeyAgeCollector, in_use_since
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.tenants.resealing import resealed
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import Vault, local_vault

OLD, NEW = b"o" * 32, b"n" * 32
DAY_MS = 86_400_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "m.sqlite")
    yield found
    found.close()


@pytest.fixture
def connection(database: Database) -> Iterator[sqlite3.Connection]:
    opened = database.open_writer()
    yield opened
    opened.close()


def data_key(vault: Vault, days_old: int) -> TenantRecord:
    return replace(new_key_record(vault, "acme"), updated_at=wall_ms() - days_old * DAY_MS)


def put(connection: sqlite3.Connection, *records: TenantRecord) -> None:
    for record in records:
        row = tenants.TABLE.row(
            SimpleNamespace(value=TENANT.encode(record))  # type: ignore[arg-type]
        )
        connection.execute(tenants.TABLE.upsert, row)


def age_in_days(connection: sqlite3.Connection, vault: Vault) -> int | None:
    since = in_use_since(connection, vault)
    return None if since is None else round((wall_ms() - since) / DAY_MS)


def test_the_oldest_data_key_tells_since_when_the_key_is_in_use(
    connection: sqlite3.Connection,
) -> None:
    vault = local_vault(OLD)
    assert age_in_days(connection, vault) is None
    put(connection, data_key(vault, 3), data_key(vault, 400), data_key(vault, 10))
    assert age_in_days(connection, vault) == 400


def test_a_new_key_is_as_old_as_what_it_sealed_and_keeps_that_age_after_a_rewrap(
    connection: sqlite3.Connection,
) -> None:
    first, both = local_vault(OLD), local_vault(NEW, OLD)
    before = data_key(first, 400)
    put(connection, before, data_key(both, 2))
    assert age_in_days(connection, both) == 2
    put(connection, replace(resealed(both, before), updated_at=wall_ms() - DAY_MS))
    assert age_in_days(connection, both) == 2


def test_with_too_many_data_keys_under_the_old_key_the_age_is_not_told(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_age, "_MOST", 3)
    first, both = local_vault(OLD), local_vault(NEW, OLD)
    put(connection, *(data_key(first, 400) for _ in range(3)), data_key(both, 2))
    assert age_in_days(connection, both) is None


def test_scrapes_ask_the_vault_now_and_then_alone(
    database: Database, connection: sqlite3.Connection
) -> None:
    vault, clock, ready = local_vault(OLD), SimpleNamespace(now=0.0), SimpleNamespace(now=False)
    collector = KeyAgeCollector(database, lambda: ready.now, vault, lambda: clock.now)

    def shown() -> list[int]:
        (age,) = collector.collect()
        return [round(sample.value / 86_400) for sample in age.samples]

    put(connection, data_key(vault, 5))
    assert shown() == [], "the read model may still miss the oldest"
    ready.now = True
    assert shown() == [5]
    put(connection, data_key(vault, 9))
    clock.now += 599
    assert shown() == [5]
    clock.now += 2
    assert shown() == [9]
