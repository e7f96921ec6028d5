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
from support.callers import AskedByAnybody

from streams.api.dead_letters import producer as record_producer
from streams.api.dead_letters import record_replay
from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.dead_letters.discards import answered, discarded
from streams.api.dead_letters.producer import NotTaken, Outgoing, Unsettled
from streams.api.dead_letters.record_replay import replay_most, replay_records
from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.refusal import Refusal
from streams.api.serving.problems import refused
from streams.errors import KafkaUnavailable
from streams.http.moments import rfc3339
from streams.process.wall_clock import wall_ms
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter
from streams.settings import Settings
from streams.topology.load import load

NOW = wall_ms()


def letter(offset: int, **fields: Any) -> DeadLetter:
    dead = DeadLetter(
        f"dispatcher:events:1:{offset}",
        "record",
        "",
        "output_refused",
        "",
        "dispatcher",
        1,
        "events",
        1,
        offset,
        b"acme",
        b"envelope",
        timestamp=5,
    )
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


class Bench(AskedByAnybody):
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
        if isinstance(fate, NotTaken) and not any(_is_huge(o) for o in outgoing):
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
            int((dict(o.headers)["tidegate-letter"]).rsplit(b":", 1)[1])
            for o in self.log
            if o.topic != "dlq"
        ]


def _is_huge(outgoing: Outgoing) -> bool:
    return DEAD_LETTER.decode(outgoing.value).value == b"huge"


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
    returned, mark = bench.log
    assert (returned.topic, returned.partition) == ("jobs.commands", 1), "dispatcher's own input"
    assert (mark.topic, mark.partition) == ("dlq", 3), "where it was read from"
    assert returned.value == mark.value, "the stage can write it again with its answer"


@pytest.mark.parametrize(
    ("outcome", "again", "name"),
    [
        (None, False, "already-replayed"),
        (None, True, None),
        ("failed", False, None),
        ("failed", True, None),
        ("taken", True, "already-replayed"),
        ("superseded", True, "already-replayed"),
    ],
)
async def test_a_record_is_sent_once_more_where_the_stage_did_not_take_it(
    rows: sqlite3.Connection, outcome: Any, again: bool, name: str | None
) -> None:
    fold(rows, letter(1, replayed_at=3, note="before", replay_outcome=outcome))
    bench = Bench(rows)
    done = await replay(bench, 1, again=again)
    assert [why.name for _, why in done.left_out] == ([name] if name else [])
    assert [each.replay_outcome for each in done.sent] == ([] if name else [None])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"value": None, "cut": True}, "holds no secret"),
        ({"value": b"sealed"}, "holds no secret"),
        ({"value": None}, None),
        ({"key": tenant_key("acme", "tenant", "")}, None),
        ({"stage": "operator"}, "reads every topic again"),
        ({"stage": "analytics", "topic": "events"}, "no input of its own"),
    ],
)
async def test_a_letter_that_would_spread_a_secret_or_has_no_stage_is_left_out(
    rows: sqlite3.Connection, fields: dict[str, Any], why: str | None
) -> None:
    given = {"stage": "delivery", "topic": "tenants", "key": tenant_key("acme", "endpoint", "crm")}
    fold(rows, letter(1, **(given | fields)))
    bench = Bench(rows)
    done = await replay(bench, 1)
    assert [o.topic for o in bench.log] == ([] if why else ["deliveries.commands", "dlq"])
    assert all(why in unfit.detail for _, unfit in done.left_out) if why else not done.left_out


def test_a_letter_waits_again_once_its_record_is_dead_again(rows: sqlite3.Connection) -> None:
    outcomes = (None, "taken", "superseded", "failed")
    fold(rows, *(letter(n, replayed_at=3, replay_outcome=o) for n, o in enumerate(outcomes)))
    found = letters_to_replay.selected(rows, {}, 10, None)
    assert (found.batches, found.matched) == (((letter(3).id,),), 1)


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


async def test_a_mark_of_another_operator_is_not_taken_for_ones_own(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may have been asked in one millisecond and for one reason; only one sent it in."""
    monkeypatch.setattr(record_replay, "wall_ms", lambda: 3)
    fold(rows, letter(1))
    other = Bench(rows)
    await replay(other, 1)
    overtaken = Bench(rows, Unsettled("fenced"))
    fold(rows, letter(1))
    overtaken.read_barrier = becoming(rows, other.late)  # type: ignore[method-assign]
    done = await replay(overtaken, 1)
    assert (overtaken.sent(), done.sent) == ([], ())
    assert [why.name for _, why in done.left_out] == ["already-replayed"]


def becoming(rows: sqlite3.Connection, late: list[DeadLetter]) -> Callable[..., Any]:
    """Another operator's letters are there only when one catches up for the second time."""
    caught_up: list[bool] = []

    async def read_barrier(*_: tuple[str, int]) -> None:
        fold(rows, *(late if caught_up else ()))
        caught_up.append(True)

    return read_barrier


async def test_an_end_that_stays_unknown_is_said_to_be(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1))
    bench = Bench(rows, *(Unsettled("fenced") for _ in range(3)))
    with pytest.raises(Refusal, match="send the call again") as raised:
        await replay(bench, 1)
    answer = refused(raised.value)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert not bench.turn.locked()


async def test_a_record_that_is_not_taken_is_found_among_many(rows: sqlite3.Connection) -> None:
    fold(rows, *(letter(n, value=b"huge" if n in (3, 6) else b"x") for n in range(9)))
    bench = Bench(rows, NotTaken("MSG_SIZE_TOO_LARGE"))
    done = await replay_most(cast(AppState, bench), [letter(n).id for n in range(9)], "mended")
    assert bench.sent() == [0, 1, 2, 4, 5, 7, 8]
    assert [(id_[-1], why.name) for id_, why in done.left_out] == [
        ("3", "not-taken"),
        ("6", "not-taken"),
    ]


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
    monkeypatch.setattr(letters_to_replay, "_PAGE_BYTES", 3_000)
    monkeypatch.setattr(letters_to_replay, "_BATCH_BYTES", 2_000)
    fold(rows, *(letter(n, value=b"x" * 890) for n in range(5)), letter(9, value=b"x" * 9_000))
    first = letters_to_replay.selected(rows, {}, 100, None)
    assert first.batches == ((letter(0).id, letter(1).id), (letter(2).id,))
    assert first.matched == 6
    found, cursor, pages = list[str](), None, 0
    while pages == 0 or cursor is not None:
        page = letters_to_replay.selected(rows, {}, 100, cursor)
        found += [id_ for batch in page.batches for id_ in batch]
        cursor, pages = page.next, pages + 1
    assert found == [letter(n).id for n in (0, 1, 2, 3, 4, 9)]


def test_letters_to_send_in_again_are_found_by_their_index(rows: sqlite3.Connection) -> None:
    statements: list[str] = []
    rows.set_trace_callback(statements.append)
    letters_to_replay.selected(rows, {"stage": "dispatcher"}, 10, None)
    rows.set_trace_callback(None)
    plan = rows.execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall()
    text = " ".join(row[3] for row in plan)
    assert "dead_letters_to_replay" in text
    assert "TEMP B-TREE" not in text


def job_letter(id_: str, at: int, **fields: Any) -> DeadLetter:
    given: dict[str, Any] = {"job_id": id_, "type": "export", "status": "dead"} | fields
    dead = DeadLetter(id_, "job", "acme", "attempts_exhausted", "", "dispatcher", at)
    return replace(dead, **given)


def test_a_page_has_jobs_by_their_end_then_records_and_goes_on_behind_its_last(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1), letter(2), job_letter("job_b", 7), job_letter("job_a", 9))
    first = letters_to_replay.selected(rows, {}, 3, None)
    assert [(each.id, each.at) for each in first.jobs] == [("job_b", 7), ("job_a", 9)]
    assert (first.batches, first.matched) == (((letter(1).id,),), 4)
    second = letters_to_replay.selected(rows, {}, 3, first.next)
    assert (second.jobs, second.batches, second.next) == ((), ((letter(2).id,),), None)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"kind": "job"}, ["job_a", "job_b"]),
        ({"kind": "record"}, []),
        ({"type": "export"}, ["job_a"]),
        ({"tenant_id": "globex"}, ["job_b"]),
        ({"reason": "attempts_exhausted", "since": 8}, ["job_b"]),
        ({"topic": "events"}, []),
    ],
)
def test_each_filter_selects_jobs(
    rows: sqlite3.Connection, wanted: dict[str, str | int], ids: list[str]
) -> None:
    fold(rows, job_letter("job_a", 7), job_letter("job_b", 8, type="mail", tenant_id="globex"))
    found = letters_to_replay.selected(rows, wanted, 10, None)
    assert [each.id for each in found.jobs] == ids


def test_what_was_replayed_or_discarded_is_not_selected(rows: sqlite3.Connection) -> None:
    fold(
        rows,
        job_letter("job_a", 1, replayed_at=2, replayed_as="job_x"),
        job_letter("job_b", 1, discarded_at=2),
        letter(1, discarded_at=2),
    )
    assert letters_to_replay.selected(rows, {}, 10, None).matched == 0


async def test_a_discard_keeps_all_that_the_letter_says_and_is_written_once(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1, replayed_at=3, note="sent in"))
    bench = Bench(rows)
    for note in ("nothing to do", "again"):
        await discarded(cast(AppState, bench), letter(1).id, note)
    (written,) = bench.log
    assert (written.topic, written.partition) == ("dlq", 3)
    marked = DEAD_LETTER.decode(written.value)
    assert marked.discard_note == "nothing to do"
    assert replace(marked, discarded_at=None, discarded_by=None, discard_note=None) == letter(
        1, replayed_at=3, note="sent in"
    )


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({}, True),
        ({"replay_outcome": "failed"}, False),
        ({"replay_outcome": "taken"}, False),
        ({"replayed_at": NOW - 9 * 86_400_000}, False),
        ({"stage": "former"}, False),
        ({"stage": "analytics"}, False),
        ({"kind": "job", "job_id": "job_1"}, False),
    ],
)
async def test_a_letter_that_its_stage_is_about_to_answer_is_not_discarded(
    rows: sqlite3.Connection, fields: dict[str, Any], refused: bool
) -> None:
    """The stage would write it without the discard, or the discard without its answer."""
    dead = letter(1, **({"replayed_at": NOW - 1_000} | fields))
    fold(rows, dead)
    bench = Bench(rows)
    if not refused:
        assert await discarded(cast(AppState, bench), dead.id, "nothing to do")
        return
    with pytest.raises(Refusal, match="dispatcher has not answered yet") as why:
        await discarded(cast(AppState, bench), dead.id, "nothing to do")
    assert (why.value.status, why.value.name, bench.log) == (409, "replay-under-way", [])
    commands = load().topics["jobs.commands"]
    until = NOW - 1_000 + (commands.retention_ms or 0) + commands.segment_ms
    assert f"or from {rfc3339(until)} on, when jobs.commands" in why.value.detail


async def test_a_refusal_stays_listed_if_kafka_does_not_take_its_mark(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1))
    await answered(cast(AppState, Bench(rows, *[Unsettled("late")] * 3)), letter(1))
    await answered(cast(AppState, Bench(rows, NotTaken("too large"))), letter(1))
