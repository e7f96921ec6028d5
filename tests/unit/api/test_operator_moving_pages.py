"""A list whose items move to the front while somebody reads it page by page loses none of them."""

from __future__ import annotations

import base64
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.operator_cluster import make_job

from streams import dead_letter
from streams.api.dead_letters import table as dead_letters
from streams.api.duplicates import table as duplicates
from streams.api.jobs import held_table as held
from streams.api.quarantine import table as quarantine
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.rows.cursor import parse_cursor
from streams.api.rows.paging import Listing, PageQuery
from streams.runtime.processor import Record
from streams.serde.codec import DUPLICATE, HELD, QUARANTINED
from streams.serde.keys import held_key, quarantine_key
from streams.serde.records import Duplicate, Held, PayloadRef, Quarantined

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Write = Callable[[int, int], Record]
"""The record of the item of a number, at a time."""


def duplicate(number: int, at: int) -> Record:
    value = DUPLICATE.encode(Duplicate("acme", 2, 1, at, None))
    return Record("duplicates", 0, at, at, number.to_bytes(16), value)


def kept(number: int, at: int) -> Record:
    digest = number.to_bytes(32)
    body = Quarantined(
        f"evt_{number:03}",
        "acme",
        "shop",
        "malformed_body",
        "no JSON",
        at,
        digest,
        PayloadRef(0, (0,), 6, "kek"),
        "application/json",
        None,
        {},
        TRACE,
    )
    key = quarantine_key("acme", "shop", digest)
    return Record("quarantine", 0, at, at, key, QUARANTINED.encode(body))


def waiting(number: int, at: int) -> Record:
    value = HELD.encode(Held(0, "default", f"type-{number:03}", None, "no_worker", at, 1, "start"))
    return Record("jobs.held", 0, at, at, held_key(0, "default", f"type-{number:03}", None), value)


def died(number: int, at: int) -> Record:
    """A job that ended for want of a worker is brought back, and may die again under its id."""
    letter = dead_letter.of_job(make_job(f"job_{number:03}", status="dead"), at)
    return Record("dlq", 0, at, at, *dead_letter.encoded(letter))


LISTS = [
    pytest.param(dead_letters.LISTING, died, "id", id="dead letters"),
    pytest.param(duplicates.LISTING, duplicate, "fingerprint", id="duplicates"),
    pytest.param(quarantine.LISTING, kept, "id", id="quarantine"),
    pytest.param(held.LISTING, waiting, "type", id="held"),
]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(connection: sqlite3.Connection, *records: Record) -> None:
    for record in records:
        batch: dict[str, Changes] = {}
        project(record, batch)
        for changes in batch.values():
            changes.write(connection)


def walked(
    connection: sqlite3.Connection, listing: Listing, name: str, between: Callable[[], None]
) -> list[str]:
    """What all pages show; `between` happens after each of the first ones."""
    cursor, found = None, list[str]()
    for number in range(100):
        page = listing.page(connection, PageQuery(4, cursor))
        found += [item[name] for item in page.items]
        if page.next is None:
            return found
        cursor = parse_cursor(str(page.next))
        if number < 6:
            between()
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize(("listing", "write", "name"), LISTS)
@pytest.mark.parametrize("seed", range(5))
def test_no_item_is_lost_that_moves_while_the_list_is_read(
    connection: sqlite3.Connection, listing: Listing, write: Write, name: str, seed: int
) -> None:
    """All moves have the time of the newest item: a clock does not tell one from the other."""
    chance = random.Random(seed)
    fold(connection, *(write(number, 10 + number) for number in range(20)))
    whole = {item[name] for item in listing.page(connection, PageQuery(100)).items}

    def move() -> None:
        fold(connection, *(write(chance.randrange(20), 29) for _ in range(3)))

    assert len(whole) == 20
    assert set(walked(connection, listing, name, move)) == whole


@pytest.mark.parametrize(("listing", "write", "name"), LISTS)
def test_a_list_that_stands_still_shows_each_item_once(
    connection: sqlite3.Connection, listing: Listing, write: Write, name: str
) -> None:
    fold(connection, *(write(number, 10 + number) for number in range(20)))
    found = walked(connection, listing, name, lambda: None)
    assert len(found) == len(set(found)) == 20
    assert found == [item[name] for item in listing.page(connection, PageQuery(100)).items]


@pytest.mark.parametrize("parts", ["[1,2]", '[1,"a",2,3]', '[1,"a","b"]', '[1,"a",1e99]', "[1]"])
def test_what_no_list_has_given_is_no_cursor(parts: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the caller names the parameter
        parse_cursor(base64.urlsafe_b64encode(parts.encode()).decode().rstrip("="))
