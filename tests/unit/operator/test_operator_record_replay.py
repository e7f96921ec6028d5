"""Dead records are judged by letters read after the transaction was opened, and counted once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from streams.errors import KafkaUnavailable
from streams.operator.http.app_state import AppState
from streams.operator.http.refusal import Refusal
from streams.operator.read_model.database import Database
from streams.operator.read_model.projections import Changes, project
from streams.operator.replay import producer as record_producer
from streams.operator.replay.producer import NotTaken, Outgoing, Unsettled
from streams.operator.replay.records import replay_most, replay_records
from streams.operator.resources import dead_records
from streams.operator.resources.dead_records import LetterFilter
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import DeadLetter
from streams.settings import Settings
from streams.topology.load import load


def letter(offset: int, **fields: Any) -> DeadLetter:
    dead = DeadLetter(
        f"dispatcher:events:1:{offset}", "record", "", "output_refused", "", "dispatcher", 1,
        "events", 1, offset, b"acme", b"envelope", timestamp=5,
    )  # fmt: skip
    return replace(dead, **fields)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(rows: sqlite3.Connection, *letters: DeadLetter) -> None:
    batch: dict[str, Changes] = {}
    for each in letters:
        project(Record("dlq", 3, 0, 0, each.id.encode(), DEAD_LETTER.encode(each)), batch)
    for changes in batch.values():
        rows.executemany(changes.table.upsert, changes.upserts())


class Bench:
    """Parts with a log in memory; `late` are letters that only catching up brings."""

    def __init__(self, rows: sqlite3.Connection, *fates: Exception | None) -> None:
        self.rows, self.topology = rows, load()
        self.fates, self.late = list(fates), list[DeadLetter]()
        self.said: list[str] = []
        self.log: list[Outgoing] = []
        self.committed_before_failing = False
        self.records = self
        self.turn = asyncio.Lock()

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.rows)

    async def read_barrier(self, *places: tuple[str, int]) -> None:
        self.said.append("caught up")
        fold(self.rows, *self.late)

    async def open(self) -> Bench:
        self.said.append("opened")
        return self

    async def commit(self, outgoing: Sequence[Outgoing]) -> None:
        fate = self.fates.pop(0) if self.fates else None
        if isinstance(fate, NotTaken) and not any(o.value == b"huge" for o in outgoing):
            self.fates.insert(0, fate)
            fate = None
        if fate is None or self.committed_before_failing:
            self.said.append("committed")
            self.log += outgoing
            marks = [o.value for o in outgoing if o.topic == "dlq"]
            self.late += [DEAD_LETTER.decode(value) for value in marks]
        if fate is not None:
            if isinstance(fate, NotTaken):
                self.fates.insert(0, fate)
            raise fate

    def sent(self) -> list[int]:
        return [
            int((dict(o.headers)["tidegate-replay"]).rsplit(b":", 1)[1])
            for o in self.log if o.topic != "dlq"
        ]  # fmt: skip


async def replay(bench: Bench, *offsets: int, again: bool = False) -> Any:
    ids = [letter(n).id for n in offsets]
    return await replay_records(cast(AppState, bench), ids, "mended", again=again)


async def test_letters_are_judged_by_what_stood_there_once_the_transaction_was_open(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1), letter(2))
    bench = Bench(rows)
    bench.late = [letter(1, replayed_at=3, note="another operator")]
    done = await replay(bench, 1, 2)
    assert bench.said[:3] == ["opened", "caught up", "committed"]
    assert bench.sent() == [2]
    assert [(id_, why.name) for id_, why in done.left_out] == [(letter(1).id, "already-replayed")]


async def test_a_mark_lies_behind_its_letter_in_the_same_partition(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1))
    bench = Bench(rows)
    await replay(bench, 1)
    record, mark = bench.log
    assert (record.topic, record.partition, record.timestamp) == ("events", 1, 5)
    assert (mark.topic, mark.partition) == ("dlq", 3), "where it was read from"


@pytest.mark.parametrize("committed", [False, True])
async def test_a_transaction_of_unknown_end_is_looked_up_before_it_is_tried_again(
    rows: sqlite3.Connection, committed: bool
) -> None:
    fold(rows, letter(1), letter(2))
    bench = Bench(rows, Unsettled("timed out"))
    bench.committed_before_failing = committed
    done = await replay(bench, 1, 2)
    assert bench.sent() == [1, 2]
    assert ([each.note for each in done.sent], done.left_out) == (["mended", "mended"], ())


async def test_an_end_that_stays_unknown_is_said_to_be(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1))
    bench = Bench(rows, *(Unsettled("fenced") for _ in range(3)))
    with pytest.raises(Refusal, match="send the call again") as refused:
        await replay(bench, 1)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "2"})
    assert not bench.turn.locked()


async def test_a_record_that_is_not_taken_is_found_among_many(rows: sqlite3.Connection) -> None:
    fold(rows, *(letter(n, value=b"huge" if n in (3, 6) else b"x") for n in range(9)))
    bench = Bench(rows, NotTaken("MSG_SIZE_TOO_LARGE"))
    done = await replay_most(cast(AppState, bench), [letter(n).id for n in range(9)], "mended")
    assert bench.sent() == [0, 1, 2, 4, 5, 7, 8]
    assert [(id_[-1], why.name) for id_, why in done.left_out] == [
        ("3", "not-taken"), ("6", "not-taken"),
    ]  # fmt: skip


async def test_where_no_transaction_opens_nothing_is_judged(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1))

    class Shut(Bench):
        async def open(self) -> Bench:
            raise KafkaUnavailable("no transaction can be opened")

    bench = Shut(rows)
    with pytest.raises(KafkaUnavailable):
        await replay(bench, 1)
    assert bench.log == []


async def test_transactions_that_hang_take_no_thread_that_others_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(record_producer, "_HUNG_SESSIONS", 0.001)
    monkeypatch.setattr(record_producer, "ReplayTransaction", lambda _: go_on.wait(30))
    replays = record_producer.RecordReplays(Settings())
    try:
        for _ in range(40):  # more than the loop's pool has
            with pytest.raises(KafkaUnavailable):
                await replays.open()
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: "asked")
    finally:
        go_on.set()


def test_a_page_is_bounded_in_bytes_and_goes_on_behind_its_last(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_records, "_PAGE_BYTES", 3_000)
    monkeypatch.setattr(dead_records, "_BATCH_BYTES", 2_000)
    fold(rows, *(letter(n, value=b"x" * 900) for n in range(5)), letter(9, value=b"x" * 9_000))
    first = dead_records.selected(rows, LetterFilter(), 100, None)
    assert first.batches == ((letter(0).id, letter(1).id), (letter(2).id,))
    assert first.matched == 6
    found, cursor, pages = list[str](), None, 0
    while pages == 0 or cursor is not None:
        page = dead_records.selected(rows, LetterFilter(), 100, cursor)
        found += [id_ for batch in page.batches for id_ in batch]
        cursor, pages = page.next, pages + 1
    assert found == [letter(n).id for n in (0, 1, 2, 3, 4, 9)]


def test_letters_to_send_in_again_are_found_by_their_index(rows: sqlite3.Connection) -> None:
    statements: list[str] = []
    rows.set_trace_callback(statements.append)
    dead_records.selected(rows, LetterFilter(stage="dispatcher"), 10, None)
    rows.set_trace_callback(None)
    plan = rows.execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall()
    text = " ".join(row[3] for row in plan)
    assert "dead_letters_to_replay" in text
    assert "TEMP B-TREE" not in text
