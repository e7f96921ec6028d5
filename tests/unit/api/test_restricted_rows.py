"""On a restricted connection the rows of some tenants exist, and no others."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from streams.api.read_model.database import Database
from streams.api.rows import restricted
from streams.api.rows.paging import PageQuery, newest
from streams.api.rows.table import Table
from streams.api.tables import DERIVED, TABLES

TENANTS = ("acme", "beta", "gamma", "")
OF_EVERYBODY = {"backlog", "job_types"}
OF_NOBODY = {"limit_grants"}
OF_ALL_TOGETHER = {"held": 1, "tenants": 1}
"""Rows under no tenant that everybody may see."""
OF_EACH = {"cause_counts": 2}
"""Rows of each tenant, if they are not one: a bucket of an hour and one of a minute."""


def values(table_columns: list[tuple[str, str]], tenant: str, number: int) -> list[object]:
    found: list[object] = []
    for name, kind in table_columns:
        if name == "tenant_id":
            found.append(tenant)
        elif name == "kind" and number >= 0:
            found.append("asked" if tenant else "pause")
        elif name == "item":  # what was asked of a bulk act
            found.append("")
        else:
            text = f"{tenant}-{number}"
            found.append({"INTEGER": number, "BLOB": b""}.get(kind, text))
    return found


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A row of each tenant, and of none, in every table."""
    made = Database(tmp_path / "read_model.sqlite")
    writer = made.open_writer()
    for table in TABLES:
        columns = [
            (name, kind) for _, name, kind, *_ in writer.execute(f"PRAGMA table_info({table.name})")
        ]
        marks = ", ".join("?" * len(columns))
        for number, tenant in enumerate(TENANTS):
            row = values(columns, tenant, number)
            writer.execute(f"INSERT INTO {table.name} VALUES ({marks})", row)
    yield made
    writer.close()
    made.close()


def counted(database: Database, tenants: frozenset[str] | None) -> dict[str, int]:
    def look(connection: sqlite3.Connection) -> dict[str, int]:
        names = [*(table.name for table in TABLES), *(each.name for each in DERIVED)]
        counts = [connection.execute(f"SELECT count(*) FROM {n}").fetchone()[0] for n in names]
        return dict(zip(names, counts, strict=True))

    return database.read(look, tenants)


@pytest.mark.parametrize("tenants", [set(), {"acme"}, {"acme", "beta"}, {"unknown"}])
def test_every_table_has_the_rows_of_the_covered_tenants_alone(
    database: Database, tenants: set[str]
) -> None:
    own = len(tenants & {"acme", "beta"})
    for name, found in counted(database, frozenset(tenants)).items():
        expected = own * OF_EACH.get(name, 1) + OF_ALL_TOGETHER.get(name, 0)
        expected = len(TENANTS) if name in OF_EVERYBODY else expected
        assert found == (0 if name in OF_NOBODY else expected), name


def test_a_connection_serves_one_principal_after_another(database: Database) -> None:
    for tenants in ({"acme"}, {"beta", "gamma"}, set(), {"beta"}, {"acme"}):
        found = database.read(
            lambda db: {t for (t,) in db.execute("SELECT tenant_id FROM jobs")}, frozenset(tenants)
        )
        assert found == tenants
        assert counted(database, None)["jobs"] == len(TENANTS)


def test_an_error_while_views_are_made_shows_no_row_of_another_tenant(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table whose view is gone would be read itself, by whoever the connection serves next."""
    view, one, two = restricted._view, frozenset({"acme"}), frozenset({"acme", "beta"})
    assert counted(database, two)["jobs"] == 2

    def failing(table: Table, covered: str) -> str:
        return "no SQL" if table.name == "jobs" else view(table, covered)

    monkeypatch.setattr(restricted, "_view", failing)
    with pytest.raises(sqlite3.OperationalError):
        counted(database, one)
    monkeypatch.undo()
    assert counted(database, two)["jobs"] == 2
    assert counted(database, one)["jobs"] == 1


def test_steps_are_those_of_the_covered_tenants_jobs(database: Database) -> None:
    look = "SELECT job_id FROM steps"
    assert database.read(lambda db: db.execute(look).fetchall(), frozenset({"beta"})) == [
        ("beta-1",)
    ]


def test_queries_that_name_an_index_or_a_rowid_run_as_on_the_table(database: Database) -> None:
    asked = (
        "SELECT count(*) FROM jobs INDEXED BY jobs_running",
        "SELECT max(rowid) FROM held",
        "SELECT rowid, id FROM quarantine WHERE rowid > 0 ORDER BY rowid LIMIT 5",
    )
    for sql in asked:
        assert database.read(lambda db, sql=sql: _rows(db, sql), frozenset({"acme"}))  # type: ignore[misc]


def _rows(connection: sqlite3.Connection, sql: str) -> list[object]:
    return connection.execute(sql).fetchall()


def test_a_list_of_one_tenant_is_read_in_the_order_of_its_index(database: Database) -> None:
    """Otherwise each page would sort all of the tenant's rows."""

    def plan(connection: sqlite3.Connection) -> str:
        sql = (
            "EXPLAIN QUERY PLAN SELECT created_at, job_id, record FROM jobs WHERE TRUE"
            " ORDER BY created_at DESC, job_id DESC LIMIT 51"
        )
        return "\n".join(str(row) for row in connection.execute(sql))

    assert "TEMP B-TREE" not in database.read(plan, frozenset({"acme"}))


def test_nothing_can_be_written_through_a_restricted_connection(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError):
        database.read(lambda db: db.execute("DELETE FROM main.jobs"), frozenset({"acme"}))


def test_a_list_of_several_tenants_is_merged_in_its_order_on_every_page(tmp_path: Path) -> None:
    database, dice = Database(tmp_path / "lists.sqlite"), random.Random(5)
    writer = database.open_writer()
    columns = [row[1:3] for row in writer.execute("PRAGMA table_info(rejections)")]
    rows = [(dice.choice([*TENANTS, "none"]), dice.randrange(40), f"r{n:03}") for n in range(400)]
    for tenant, at, id_ in rows:
        given = {"tenant_id": tenant, "at": at, "id": id_, "record": id_.encode()}
        marks = ", ".join("?" * len(columns))
        writer.execute(f"INSERT INTO rejections VALUES ({marks})", [given[n] for n, _ in columns])
    covered = frozenset({"acme", "beta", "gamma"})
    expected = sorted(((at, id_) for tenant, at, id_ in rows if tenant in covered), reverse=True)
    seen, cursor, order = list[tuple[int, str]](), None, ("at", "id")
    for _ in range(len(rows)):
        look = partial(newest, table="rejections", order=order, query=PageQuery(7, cursor))
        page, cursor = database.read(look, covered)
        seen += [(each.at, each.id) for each in page]
        if cursor is None:
            break
    assert seen == expected
    one, _ = database.read(
        lambda db: newest(db, "rejections", order, PageQuery(500, filters={"tenant_id": "beta"})),
        covered,
    )
    assert len(one) == sum(tenant == "beta" for tenant, *_ in rows)
    writer.close()
    database.close()
