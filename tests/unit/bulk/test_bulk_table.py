"""What the operator's rows show of an act under whose key two plans were made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from support.folding import fold_records

from streams.api.bulk.table import act, items_page, samples
from streams.api.read_model.database import Database
from streams.bulk.act import TOPIC
from streams.bulk.journal import Journal
from streams.runtime.processor import Record
from streams.serde.bulk_records import BulkAsked, BulkBody, BulkItem

ASKED = BulkAsked(
    "a", "{}", "{}", "why", "admin", None, None, 3, (), {}, (), None, b"r" * 32, b"p" * 32
)
OURS = [BulkItem(f"job_{n}", n, "acme", b"p" * 32) for n in range(3)]
JOURNAL = Journal(cast(Any, None), 1, "operator")


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def written(rows: sqlite3.Connection, *bodies: BulkBody) -> None:
    sent = [JOURNAL.record("b1", body) for body in bodies]
    fold_records(rows, *(Record(TOPIC, 0, 0, 0, each.key, each.value) for each in sent))


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_plan_that_was_never_asked_for_hides_no_item_of_the_act_and_shows_none(
    rows: sqlite3.Connection, first: str
) -> None:
    theirs = [
        replace(each, digest=b"q" * 32) for each in (*OURS, BulkItem("job_9", 3, "acme", b""))
    ]
    ours = [replace(OURS[0], outcome="done"), *OURS[1:]]
    both = [ours, theirs] if first == "ours" else [theirs, ours]
    written(rows, *both[0], ASKED, *both[1])
    shown, found = items_page(rows, "b1", None, 2, None), list[str]()
    while True:
        found += [f"{each['id']} {each['outcome']}" for each in shown.items]
        if shown.next is None:
            break
        shown = items_page(rows, "b1", None, 2, shown.next)
    assert found == ["job_0 done", "job_1 waiting", "job_2 waiting"]
    assert [each["id"] for each in samples(rows, act(rows, "b1"))] == ["job_0", "job_1", "job_2"]
    (done,) = items_page(rows, "b1", "done", 2, None).items
    assert done["id"] == "job_0"
