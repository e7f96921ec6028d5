"""Dead records are sent in again by one record each, and their stages answer."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from support.callers import AskedByAnybody

from streams.api.bulk.action import Doing, NoParams
from streams.api.bulk.dead_letter_actions import REPLAY
from streams.api.dead_letters import letter as letter_calls
from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.dead_letters.discards import discarded
from streams.api.dead_letters.record_replay import replay_records
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.operator_state import AppState
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.refusal import Refusal
from streams.errors import RecordTooLarge
from streams.kafka.fenced_write import OutgoingRecord
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter
from streams.topology.load import load


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
        changes.write(rows)


class Sent(NamedTuple):
    topic: str
    partition: int
    value: bytes
    headers: dict[str, bytes]


class Bench(AskedByAnybody):
    """Parts with a log in memory; `late` are letters that only catching up brings.

    Stages answer each letter that comes back with `outcome`, or are silent.
    """

    def __init__(self, rows: sqlite3.Connection, outcome: Any = "taken") -> None:
        self.rows, self.topology, self.outcome = rows, load(), outcome
        self.late = list[DeadLetter]()
        self.log: list[Sent] = []
        self.producer = self

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return query(self.rows)

    async def wait_for(self, row: Any, look: Callable[[sqlite3.Connection], Any], *_: Any) -> Any:
        return look(self.rows)

    async def read_barrier(self, *places: tuple[str, int]) -> None:
        fold(self.rows, *self.late)

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        letter = DEAD_LETTER.decode(value)
        if letter.value == b"huge":
            raise RecordTooLarge("MSG_SIZE_TOO_LARGE")
        self.log.append(Sent(topic, partition, value or b"", dict(headers)))
        if topic == "dlq":
            self.late.append(letter)
        elif self.outcome is not None:
            fold(self.rows, replace(letter, replay_outcome=self.outcome))
        return len(self.log)

    async def audited(self, _: object, *records: OutgoingRecord) -> list[int]:
        """Write records; their entry is left out."""
        return [
            await self.send(
                each.topic, each.key, each.value, partition=each.partition, headers=each.headers
            )
            for each in records
        ]

    def sent(self) -> list[int]:
        ids = [each.headers["tidegate-letter"] for each in self.log if each.topic != "dlq"]
        return [int(id_.rsplit(b":", 1)[1]) for id_ in ids]


async def replay(bench: Bench, *offsets: int, again: bool = False) -> Any:
    ids = [letter(n).id for n in offsets]
    return await replay_records(cast(AppState, bench), ids, "mended", again=again)


async def test_letters_are_judged_as_they_are_at_the_call(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1), letter(2))
    bench = Bench(rows)
    bench.late = [letter(1, replayed_at=3, note="another operator", replay_outcome="taken")]
    done = await replay(bench, 1, 2)
    assert bench.sent() == [2]
    assert [(id_, why.name) for id_, why in done.left_out] == [(letter(1).id, "already-replayed")]


async def test_one_record_brings_a_letter_back_and_its_stage_answers_in_it(
    rows: sqlite3.Connection,
) -> None:
    """So there is no half: the mark is in the letter that the stage writes again."""
    fold(rows, letter(1))
    bench = Bench(rows)
    done = await replay(bench, 1)
    (returned,) = bench.log
    assert (returned.topic, returned.partition) == ("jobs.commands", 1), "dispatcher's own input"
    carried = DEAD_LETTER.decode(returned.value)
    assert (carried.note, carried.replayed_by, carried.replay_outcome) == (
        "mended",
        "operator",
        None,
    )
    assert (done.answered, [each.replay_outcome for each in done.sent]) == (True, ["taken"])


@pytest.mark.parametrize("outcome", ["failed", "superseded"])
async def test_a_record_that_its_stage_does_not_take_fails_its_item_of_a_bulk_act(
    rows: sqlite3.Connection, outcome: str
) -> None:
    fold(rows, letter(1))
    bench, doing = Bench(rows, outcome), Doing(letter(1).id, "", "mended", NoParams(), "b1:1")
    for _ in ("its owner", "an heir"):
        with pytest.raises(Refusal, match="output_refused") as caught:
            await REPLAY.deal(cast(AppState, bench), doing)
        assert caught.value.name == f"replay-{outcome}"
    assert bench.sent() == [1]


async def test_a_stage_that_is_late_leaves_the_letter_as_it_was(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1))
    bench = Bench(rows, outcome=None)
    done = await replay(bench, 1)
    assert (done.answered, [each.note for each in done.sent]) == (False, ["mended"])
    assert letters_to_replay.selected(rows, {}, 10, None).records == (letter(1).id,)
    await replay(bench, 1)
    assert bench.sent() == [1, 1], "it may be sent in again: stages take a record twice"


async def test_two_operators_that_are_asked_at_once_are_both_answered(
    rows: sqlite3.Connection,
) -> None:
    fold(rows, letter(1))
    found = await asyncio.gather(replay(Bench(rows), 1), replay(Bench(rows, outcome=None), 1))
    assert [len(done.sent) for done in found] == [1, 1]
    assert [done.answered for done in found] == [True, False]


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
    assert [each.replay_outcome for each in done.sent] == ([] if name else ["taken"])


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
    assert [o.topic for o in bench.log] == ([] if why else ["deliveries.commands"])
    assert all(why in unfit.detail for _, unfit in done.left_out) if why else not done.left_out


async def asked(bench: Bench, key: str | None, note: str = "mended") -> Any:
    wanted = ReplayRequest(incident_note=note)
    return await letter_calls.replay(cast(AppState, bench), letter(1).id, wanted, key)


@pytest.mark.parametrize("outcome", ["taken", "failed"])
async def test_a_key_sends_a_record_in_once_whatever_its_stage_answers(
    rows: sqlite3.Connection, outcome: Any
) -> None:
    fold(rows, letter(1))
    bench = Bench(rows, outcome)
    first, second = await asked(bench, "k1"), await asked(bench, "k1")
    assert (second, second["answered"]) == (first, True)
    assert bench.sent() == [1]
    with pytest.raises(Refusal, match="another note") as refused:
        await asked(bench, "k1", "mended at last")
    assert refused.value.name == "key-reused"
    assert bench.sent() == [1]


async def test_a_header_that_is_no_text_is_a_key_too(rows: sqlite3.Connection) -> None:
    fold(rows, letter(1))
    bench = Bench(rows)
    for _ in range(2):
        await asked(bench, "k\udcff")
    assert bench.sent() == [1]


def test_a_letter_waits_again_once_its_record_is_dead_again(rows: sqlite3.Connection) -> None:
    outcomes = (None, "taken", "superseded", "failed")
    fold(rows, *(letter(n, replayed_at=3, replay_outcome=o) for n, o in enumerate(outcomes)))
    found = letters_to_replay.selected(rows, {}, 10, None)
    assert (found.records, found.matched.count) == ((letter(3).id,), 1)


async def test_a_record_that_is_not_taken_is_found_among_many(rows: sqlite3.Connection) -> None:
    fold(rows, *(letter(n, value=b"huge" if n in (3, 6) else b"x") for n in range(9)))
    bench = Bench(rows)
    done = await replay(bench, *range(9))
    assert bench.sent() == [0, 1, 2, 4, 5, 7, 8]
    assert [(id_[-1], why.name) for id_, why in done.left_out] == [
        ("3", "not-taken"),
        ("6", "not-taken"),
    ]


def test_a_page_is_bounded_in_bytes_and_goes_on_behind_its_last(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters_to_replay, "_PAGE_BYTES", 3_000)
    fold(rows, *(letter(n, value=b"x" * 890) for n in range(5)), letter(9, value=b"x" * 9_000))
    first = letters_to_replay.selected(rows, {}, 100, None)
    assert first.records == tuple(letter(n).id for n in range(3))
    assert first.matched.count == 6
    found, cursor, pages = list[str](), None, 0
    while pages == 0 or cursor is not None:
        page = letters_to_replay.selected(rows, {}, 100, cursor)
        found += page.records
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
    assert (first.records, first.matched.count) == ((letter(1).id,), 4)
    second = letters_to_replay.selected(rows, {}, 3, first.next)
    assert (second.jobs, second.records, second.next) == ((), (letter(2).id,), None)


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
    assert letters_to_replay.selected(rows, {}, 10, None).matched.count == 0


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
