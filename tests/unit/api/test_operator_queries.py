"""Lists: newest first, whole over pages while jobs arrive, one tenant's alone (G3)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import webhooks
from support.callers import Operator
from support.operator_cluster import make_entry, make_job, make_letter
from support.step_results import framed

from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters import to_replay as letters_to_replay
from streams.api.duplicates import table as duplicates
from streams.api.effects import unknown_table as unknown_effects
from streams.api.effects.table import begun_effects
from streams.api.jobs import movable as movable_jobs
from streams.api.jobs import table as jobs
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.rows import matched, paging
from streams.api.rows.cursor import Cursor, parse_cursor
from streams.api.rows.paging import PageQuery
from streams.api.sources import table as sources
from streams.operator.counts import counts
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER, DUPLICATE, JOB, LEDGER_ENTRY, TENANT
from streams.serde.ids import fingerprint
from streams.serde.job_states import TERMINAL, JobStatus
from streams.serde.keys import checkpoint_key, tenant_key
from streams.serde.records import (
    Attempt,
    DeadLetter,
    Duplicate,
    EventInfo,
    Job,
    LedgerEntry,
    TenantRecord,
)
from streams.topology.load import load


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


CODECS: dict[type, tuple[str, Any]] = {
    Job: ("jobs", JOB),
    LedgerEntry: ("ledger", LEDGER_ENTRY),
    DeadLetter: ("dlq", DEAD_LETTER),
}


def fold(connection: sqlite3.Connection, *values: Job | LedgerEntry | DeadLetter) -> None:
    batch: dict[str, Changes] = {}
    for value in values:
        topic, codec = CODECS[type(value)]
        project(Record(topic, 0, 0, 0, b"", codec.encode(value)), batch)
    write(connection, batch)


def write(connection: sqlite3.Connection, batch: dict[str, Changes]) -> None:
    for changes in batch.values():
        changes.write(connection)


def all_pages(connection: sqlite3.Connection, limit: int, **only: str) -> list[str]:
    seen, cursor = [], None
    while True:
        page = jobs.jobs_page(connection, PageQuery(limit, cursor, only), load())
        assert len(page.items) <= limit
        seen += [each["job_id"] for each in page.items]
        assert len(seen) == len(set(seen)), "a page repeats a job"
        if page.next is None:
            return seen
        cursor = parse_cursor(str(page.next))


def test_pages_show_every_job_once_newest_first(connection: sqlite3.Connection) -> None:
    # Five share a moment: the id decides between them.
    made = [make_job(f"job_{n:02}", created_at=1_000 + n // 5) for n in range(23)]
    fold(connection, *made)
    expected = [f"job_{n:02}" for n in reversed(range(23))]
    for limit in (1, 5, 22, 23, 24):
        assert all_pages(connection, limit) == expected


ACME = frozenset({"acme"})


@pytest.mark.parametrize(
    ("only", "tenants", "index"),
    [
        ({}, None, "newest"),
        ({"tenant_id": "acme"}, None, "of_tenant"),
        ({"status": "failed"}, None, "by_status"),
        ({"type": "t"}, None, "by_type"),
        ({"tenant_id": "acme", "status": "failed"}, None, "of_tenant_by_status"),
        ({"tenant_id": "acme", "type": "t"}, None, "of_tenant"),
        ({"tenant_id": "acme", "type": "t", "status": "failed"}, None, "of_tenant_by_status"),
        ({"type": "t"}, ACME, "of_tenant"),
        ({"type": "t"}, ACME | {"beta"}, "of_tenant"),
    ],
)
def test_a_list_of_jobs_reads_an_index_in_its_order(
    tmp_path: Path, only: dict[str, str], tenants: frozenset[str] | None, index: str
) -> None:
    """Of one that gives another order, all rows would be read for each page."""
    database, statements = Database(tmp_path / "listed.sqlite"), list[str]()
    database.open_writer().close()

    def look(connection: sqlite3.Connection) -> str:
        connection.set_trace_callback(statements.append)
        jobs.jobs_page(connection, PageQuery(50, None, only), load())
        connection.set_trace_callback(None)
        asked = next(each for each in statements if "ORDER BY created_at" in each)
        return str(connection.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall())

    plan = database.read(look, tenants)
    database.close()
    assert re.search(rf"INDEX jobs_{index}\b", plan)
    assert "TEMP B-TREE" not in plan


def test_jobs_that_arrive_meanwhile_move_no_page(connection: sqlite3.Connection) -> None:
    fold(connection, *(make_job(f"job_{n}", created_at=n) for n in range(6)))
    first = jobs.jobs_page(connection, PageQuery(3), load())
    fold(connection, *(make_job(f"job_new{n}", created_at=100 + n) for n in range(4)))
    second = jobs.jobs_page(connection, PageQuery(3, first.next), load())
    assert [each["job_id"] for each in second.items] == ["job_2", "job_1", "job_0"]
    assert second.next is None


def test_the_sources_of_all_tenants_come_by_tenant_and_name(connection: sqlite3.Connection) -> None:
    made = [("b", "x"), ("a", "z"), ("a-b", "x"), ("a", "y.1"), ("a", "y")]
    batch: dict[str, Changes] = {}
    for key, value in [
        webhooks.tenant("a"),
        *(webhooks.source(of, name, "stripe") for of, name in made),
    ]:
        project(Record("tenants", 0, 0, 0, key, value), batch)
    write(connection, batch)
    found, cursor = list[tuple[str, str]](), None
    while True:
        page = sources.LISTING.shown(connection, PageQuery(2, cursor), Operator())
        found += [(each["tenant_id"], each["source"]) for each in page.items]
        if page.next is None:
            break
        cursor = parse_cursor(str(page.next))
    assert found == sorted(made)


def test_bodies_in_the_quarantine_are_counted_until_they_are_released(
    connection: sqlite3.Connection,
) -> None:
    assert counts(connection).quarantined == 0
    for n, status in enumerate(("waiting", "released", "waiting")):
        row = ("acme", "shop", f"hash-{n}", f"evt_{n}", status, 1, b"")
        connection.execute("INSERT INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    assert counts(connection).quarantined == 2


@pytest.mark.parametrize("large", ["record", "effects"])
def test_a_page_of_large_jobs_ends_early_and_none_is_left_out(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    monkeypatch.setattr(paging, "PAGE_BYTES", 10_000)
    text = json.dumps("x" * 4_000)
    in_record = {"input": text} if large == "record" else {}
    made = [make_job(f"job_{n}", created_at=n, **in_record) for n in range(7)]
    fold(connection, *made, make_job("job_8", created_at=8, input=json.dumps("x" * 90_000)))
    if large == "effects":
        fold(connection, *(make_entry(job, "a/1", result=text) for job in made))
    expected = ["job_8", *(f"job_{n}" for n in reversed(range(7)))]
    assert all_pages(connection, 200) == expected
    first = jobs.jobs_page(connection, PageQuery(200, Cursor(7, "")), load())
    assert len(first.items) == 2


def test_filters_combine(connection: sqlite3.Connection) -> None:
    fold(
        connection,
        make_job("a1", "acme", status="dead", type="t1"),
        make_job("a2", "acme", status="dead", type="t2"),
        make_job("a3", "acme", status="running", type="t1"),
        make_job("g1", "globex", status="dead", type="t1"),
    )
    assert all_pages(connection, 10, tenant_id="acme", status="dead", type="t1") == ["a1"]
    assert all_pages(connection, 10, tenant_id="acme", status="dead") == ["a2", "a1"]
    assert all_pages(connection, 10, status="dead", type="t1") == ["g1", "a1"]
    assert all_pages(connection, 10, tenant_id="") == []


def test_a_tenant_s_lists_and_effects_are_its_own(connection: sqlite3.Connection) -> None:
    ours, theirs = make_job("job_a", "acme", scope="s"), make_job("job_g", "globex", scope="s")
    fold(
        connection,
        ours,
        theirs,
        make_letter(ours),
        make_letter(theirs),
        make_entry(ours, "email/x", result='"ours"'),
        make_entry(theirs, "email/x", result='"theirs"'),
    )
    for tenant, job_id, result in (("acme", "job_a", "ours"), ("globex", "job_g", "theirs")):
        query = PageQuery(10, None, {"tenant_id": tenant})
        (shown,) = jobs.jobs_page(connection, query, load()).items
        assert shown["job_id"] == job_id
        assert [effect["result"] for effect in shown["effects"]] == [result]
        letters = dead_letters.LISTING.page(connection, query).items
        assert [letter["id"] for letter in letters] == [job_id]


def test_an_effect_of_a_job_in_review_shows_from_when_it_can_be_settled(
    connection: sqlite3.Connection,
) -> None:
    job = make_job("job_a", status="needs_review", timeout_seconds=40)
    asked = make_entry(job, "email/x", status="review", updated_at=1_700_000_000_000)
    fold(connection, job, asked, make_entry(job, "email/done"))
    shown = jobs.shown_job(connection, "job_a", load())
    (listed,) = jobs.jobs_page(connection, PageQuery(10), load()).items
    assert shown is not None
    for each in (shown, listed):
        times = {effect["action"]: effect["settle_after"] for effect in each["effects"]}
        assert times == {"email/x": "2023-11-14T22:14:00.000Z", "email/done": None}
    fold(connection, make_job("job_a", status="pending", timeout_seconds=40))
    again = jobs.shown_job(connection, "job_a", load())
    assert again is not None
    assert [effect["settle_after"] for effect in again["effects"]] == [None, None]


def test_an_effect_that_a_job_left_unknown_shows_how_a_person_goes_on(
    connection: sqlite3.Connection,
) -> None:
    job = make_job("job_a", status="dead", timeout_seconds=40)
    left = make_entry(
        job,
        "email/x",
        status="unknown",
        updated_at=1_700_000_000_000,
        first_claimed_at=1_700_000_000_000,
        key_lifetime_ms=3_600_000,
    )
    fold(connection, job, left)
    times = {
        "settle_after": "2023-11-14T22:14:00.000Z",
        "repeatable_until": "2023-11-14T23:12:20.000Z",
    }
    shown = jobs.shown_job(connection, "job_a", load())
    (listed,) = unknown_effects.LISTING.page(connection, PageQuery(10)).items
    assert shown is not None
    for each in (*shown["effects"], listed):
        assert times.items() <= each.items()
    fold(connection, make_job("job_new", status="running", scope=job.scope, replay_of="job_a"))
    again = jobs.shown_job(connection, "job_a", load())
    assert again is not None
    assert again["effects"][0]["settle_after"] is None, "the replay asks the ledger"


def test_an_effect_of_an_earlier_incarnation_is_not_settled_as_one_of_the_present_one(
    connection: sqlite3.Connection,
) -> None:
    """Both call under one action; the command that was shown settled the later call."""
    old = make_job("job_a", status="dead", scope="job_a.1")
    left = make_entry(old, "email/x", status="unknown")
    fold(connection, replace(old, scope="job_a.2", incarnation=2, status="succeeded"), left)
    (listed,) = unknown_effects.LISTING.page(connection, PageQuery(10)).items
    assert (listed["job_id"], listed["settle_after"], listed["job_status"]) == ("job_a", None, None)


def test_a_job_shows_its_input_its_principal_and_where_it_failed(
    connection: sqlite3.Connection,
) -> None:
    runs = (
        Attempt(1, 1_700_000_000_000, "w1/b", "failed", "KeyError: 'to'"),
        Attempt(2, 1_700_000_001_000, "w1/b", "failed", "KeyError: 'to'", "Traceback\n  line 7"),
    )
    fold(connection, make_job("job_a", input='{"to":"x"}', history=runs, schedule_id="nightly"))
    shown = jobs.shown_job(connection, "job_a", load())
    (listed,) = jobs.jobs_page(connection, PageQuery(10), load()).items
    assert shown is not None
    assert shown["input"] == {"to": "x"}
    assert shown["principal"] == listed["principal"] == "schedule:nightly"
    assert [run["traceback"] for run in shown["history"]] == [None, "Traceback\n  line 7"]
    assert "input" not in listed, "inputs are large"


def test_a_job_that_never_ran_shows_no_timeout_but_the_one_it_asked_for(
    connection: sqlite3.Connection,
) -> None:
    fold(connection, make_job("job_a", timeout_seconds=0.0), make_job("job_b", timeout_seconds=7.0))
    shown = [jobs.shown_job(connection, id_, load()) or {} for id_ in ("job_a", "job_b")]
    assert [each["timeout_seconds"] for each in shown] == [None, 7.0]


def test_an_erased_tenants_inputs_are_shown_to_nobody(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a", input='{"to":"x"}'), make_job("job_b", "globex"))
    mark = TenantRecord("acme", "erasure", "", True, '{"at":1,"note":"n"}')
    batch: dict[str, Changes] = {}
    project(
        Record("tenants", 0, 0, 0, tenant_key("acme", "erasure", ""), TENANT.encode(mark)), batch
    )
    write(connection, batch)
    shown = [jobs.shown_job(connection, id_, load()) or {} for id_ in ("job_a", "job_b")]
    assert [each["input"] for each in shown] == [None, {}]


def test_what_another_tenant_says_of_a_job_is_not_shown(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a", "acme"))
    connection.execute("INSERT INTO progress VALUES ('job_a', 'globex', 'run_1', 1, 1, '50')")
    said = "('job_a', 1, 'globex', 1, 'log', 'run_1', 1, '', 0, '{}')"
    connection.execute(f"INSERT INTO live VALUES {said}")
    shown = jobs.shown_job(connection, "job_a", load())
    assert shown is not None
    assert shown["progress"] is None
    assert shown["log"] == []


def test_steps_are_those_of_the_incarnation_in_order(connection: sqlite3.Connection) -> None:
    fold(connection, make_job("job_a", incarnation=2))
    batch: dict[str, Changes] = {}
    steps = [(1, "old", 1), (2, "b", 5), (2, "a", 6), (10, "x", 1)]
    for incarnation, name, at in steps:
        key = checkpoint_key("job_a", incarnation, name)
        project(Record("dispatcher.checkpoints.changelog", 0, at, 0, key, framed("1")), batch)
    write(connection, batch)
    shown = jobs.shown_job(connection, "job_a", load())
    assert shown is not None
    assert [step["name"] for step in shown["steps"]] == ["b", "a"]


def test_effects_at_stake_are_those_of_the_whole_family_of_replays(
    connection: sqlite3.Connection,
) -> None:
    root = make_job("root")
    middle = make_job("middle", replay_of="root")
    leaf, other = make_job("leaf", replay_of="middle"), make_job("other")
    theirs = make_job("theirs", "globex", replay_of="root", scope="root.1")
    fold(
        connection,
        root,
        middle,
        leaf,
        other,
        theirs,
        make_entry(root, "mail", status="done"),
        make_entry(root, "lookup", status="failed"),
        make_entry(middle, "refund", status="claimed"),
        make_entry(leaf, "sms", status="unknown"),
        make_entry(other, "call", status="done"),
        make_entry(theirs, "theirs", status="done"),
    )
    for job in (root, middle, leaf):
        begun = begun_effects(connection, job)
        assert {entry.action for entry in begun} == {"mail", "refund", "sms"}, job.job_id
    assert [e.action for e in begun_effects(connection, theirs)] == ["theirs"]
    # A ring of replays, which nobody makes, ends all the same.
    fold(connection, make_job("root", replay_of="leaf"))
    assert len(begun_effects(connection, root)) == 3


@pytest.mark.parametrize("status", get_args(JobStatus))
def test_a_scope_is_shared_with_a_live_job_of_the_same_tenant_alone(
    connection: sqlite3.Connection, status: JobStatus
) -> None:
    job = make_job("job_a", scope="s")
    fold(
        connection,
        job,
        make_job("job_b", scope="s", status=status),
        make_job("job_g", "globex", scope="s"),
        make_job("job_c", scope="t"),
    )
    found = jobs.sharing(connection, job)
    assert (found is None) == (status in TERMINAL)
    assert found is None or found.job_id == "job_b"


def test_a_dead_letter_names_its_replays_and_their_state(connection: sqlite3.Connection) -> None:
    job = make_job("job_a", status="dead")
    fold(
        connection,
        job,
        make_letter(job, replayed_as="r2"),
        make_job("r1", replay_of="job_a"),
        make_job(
            "r2",
            replay_of="job_a",
            status="succeeded",
            created_at=1_800_000_000_000,
            replay_note="mended",
            submitted_by="operator",
        ),
        make_job("r3", "globex", replay_of="job_a"),
    )
    (shown,) = dead_letters.LISTING.page(connection, PageQuery(10)).items
    assert (shown["replayed_as"], shown["replayed_status"]) == ("r2", "succeeded")
    assert [(each["job_id"], each["status"], each["note"]) for each in shown["replays"]] == [
        ("r2", "succeeded", "mended"),
        ("r1", "pending", None),
    ]
    assert shown["replays"][0]["submitted_by"] == "operator"


def test_waiting_jobs_are_found_by_their_index(connection: sqlite3.Connection) -> None:
    fold(connection, *(make_job(f"job_{n}", created_at=9 - n) for n in range(5)))
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    wanted = movable_jobs.WaitingFilter("draft_reply", "gpu", None)
    first = movable_jobs.selected(connection, wanted, 2, None)
    connection.set_trace_callback(None)
    second = movable_jobs.selected(connection, wanted, 9, first.next)
    assert [id_ for id_, _ in (*first.jobs, *second.jobs)] == [f"job_{n}" for n in (4, 3, 2, 1, 0)]
    assert (first.matched.count, second.matched.count, second.next) == (5, 3, None)
    for statement in statements:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        text = " ".join(row[3] for row in plan)
        assert "jobs_waiting" in text
        assert "TEMP B-TREE" not in text


EVENT = EventInfo(
    "evt_1", "zendesk", "ticket", None, None, 1, "application/json", None, None, "t1", {}
)


def fold_duplicates(connection: sqlite3.Connection, key: bytes, counted: Duplicate) -> None:
    batch: dict[str, Changes] = {}
    project(Record("duplicates", 0, 0, 0, key, DUPLICATE.encode(counted)), batch)
    write(connection, batch)


def shown_duplicates(connection: sqlite3.Connection, job: Job) -> object:
    fold(connection, job)
    shown = jobs.shown_job(connection, job.job_id, load())
    assert shown is not None
    return shown["duplicates"]


def test_a_job_shows_how_often_and_when_last_its_event_came_again(
    connection: sqlite3.Connection,
) -> None:
    job = make_job(event=EVENT, event_time=1_000)
    assert shown_duplicates(connection, job) is None
    assert shown_duplicates(connection, make_job(event=None)) is None
    key = fingerprint("acme", "zendesk", "t1")
    for count, at in ((1, 1_500), (2, 2_000)):
        fold_duplicates(connection, key, Duplicate("acme", count, 1_000, at, "evt_2"))
    assert shown_duplicates(connection, job) == {"count": 2, "last_at": "1970-01-01T00:00:02.000Z"}


def test_a_jobs_duplicates_are_those_of_its_own_window_and_tenant(
    connection: sqlite3.Connection,
) -> None:
    fold_duplicates(
        connection, fingerprint("acme", "zendesk", "t1"), Duplicate("acme", 3, 500, 900, None)
    )
    later = make_job(event=EVENT, event_time=1_000, incarnation=2)
    assert shown_duplicates(connection, later) is None, "of the window before"
    replay = make_job("job_r", event=EVENT, event_time=1_000, replay_of="job_a")
    assert shown_duplicates(connection, replay) is not None
    theirs = make_job("job_g", "globex", event=EVENT, event_time=0)
    assert shown_duplicates(connection, theirs) is None
    foreign = fingerprint("globex", "zendesk", "t1")
    fold_duplicates(connection, foreign, Duplicate("acme", 9, 500, 2_000, None))
    assert shown_duplicates(connection, theirs) is None, "another tenant's record under its key"


def test_duplicates_are_listed_newest_first_a_tenants_alone(connection: sqlite3.Connection) -> None:
    for n, tenant in enumerate(("acme", "globex", "acme", "acme")):
        fold_duplicates(connection, bytes([n] * 16), Duplicate(tenant, 1, 1, 10 + n, None))
    acme = {"tenant_id": "acme"}
    first = duplicates.LISTING.page(connection, PageQuery(2, None, acme))
    assert [(each["fingerprint"][:2], each["last_at"]) for each in first.items] == [
        ("03", "1970-01-01T00:00:00.013Z"),
        ("02", "1970-01-01T00:00:00.012Z"),
    ]
    second = duplicates.LISTING.page(connection, PageQuery(2, first.next, acme))
    assert ([each["fingerprint"][:2] for each in second.items], second.next) == (["00"], None)
    everyone = duplicates.LISTING.page(connection, PageQuery(9)).items
    assert [each["fingerprint"][:2] for each in everyone] == ["03", "02", "01", "00"]


LISTS = {
    "all": ("", "jobs_newest"),
    "a tenant's": ("WHERE tenant_id = 'a'", "jobs_of_tenant"),
    "a tenant's by status": (
        "WHERE tenant_id = 'a' AND status = 'dead'",
        "jobs_of_tenant_by_status",
    ),
    "by status": ("WHERE status = 'dead'", "jobs_by_status"),
    "by type": ("WHERE type = 't'", "jobs_by_type"),
}


@pytest.mark.parametrize("case", LISTS)
def test_every_list_walks_an_index_and_sorts_nothing(
    connection: sqlite3.Connection, case: str
) -> None:
    where, index = LISTS[case]
    plan = connection.execute(
        "EXPLAIN QUERY PLAN SELECT created_at, job_id, record FROM jobs "
        f"{where} ORDER BY created_at DESC, job_id DESC LIMIT 51"
    ).fetchall()
    text = " ".join(row[3] for row in plan)
    assert f"{index} " in text or text.endswith(index)
    assert "TEMP B-TREE" not in text


@given(st.integers(-(2**63), 2**63 - 1), st.text().filter(lambda t: t.isascii()))
def test_a_cursor_comes_back_as_it_went(at: int, id_: str) -> None:
    assert parse_cursor(str(Cursor(at, id_))) == Cursor(at, id_)


@pytest.mark.parametrize("text", ["", "x", "W10", "WzEsMl0", "e30", "é", "bnVsbA", "WyIxIiwiYSJd"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse_cursor(text)


def listed_letters(connection: sqlite3.Connection, **only: str) -> list[str]:
    page = dead_letters.LISTING.page(connection, PageQuery(10, None, only))
    return [each["id"] for each in page.items]


def test_a_list_leaves_out_discarded_letters_unless_they_are_asked_for(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_letter(make_job("job_open"), at=1),
        make_letter(make_job("job_gone"), at=2, discarded_at=3),
    )
    assert listed_letters(connection) == ["job_open"]
    assert listed_letters(connection, discarded="true") == ["job_gone"]
    assert counts(connection).dead_letters == 1


def test_a_list_has_manual_work_alone_if_it_is_asked_for(connection: sqlite3.Connection) -> None:
    manual: dict[str, Any] = {"manual_at": 3, "manual_note": "refund it"}
    fold(
        connection,
        make_letter(make_job("job_open"), at=1),
        make_letter(make_job("job_hand"), at=2, assignee="ann", **manual),
        make_letter(make_job("job_mine"), at=3, assignee="bob", **manual),
        make_letter(make_job("job_done"), at=4, done_at=5, **manual),
        make_letter(make_job("job_again"), at=5, replayed_at=6, **manual),
    )
    assert listed_letters(connection) == ["job_again", "job_open"]
    assert listed_letters(connection, not_replayed="true") == ["job_open"]
    assert listed_letters(connection, manual="true") == ["job_mine", "job_hand"]
    assert listed_letters(connection, manual="true", assignee="ann") == ["job_hand"]
    assert listed_letters(connection, discarded="true") == ["job_done"]
    assert counts(connection).dead_letters == 1
    chosen = letters_to_replay.selected(connection, {}, 10, None)
    assert [job.id for job in chosen.jobs] == ["job_open"]


def test_more_than_so_many_letters_are_not_counted(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matched, "MOST", 3)
    monkeypatch.setattr(dead_letters, "MOST", 3)
    for count, is_bound in ((3, False), (4, True)):
        fold(connection, *(make_letter(make_job(f"job_{n}"), at=n) for n in range(count)))
        told = {"matched": 3, "matched_is_bound": is_bound}
        assert letters_to_replay.selected(connection, {}, 2, None).matched.json() == told
        found = dead_letters.errors(connection, PageQuery(9))
        assert sum(each["count"] for each in found.pop("errors")) == 3
        assert found == {"more": False, **told}


def test_letters_that_were_not_replayed_have_neither_a_mark_nor_a_job_made_of_them(
    connection: sqlite3.Connection,
) -> None:
    fold(
        connection,
        make_letter(make_job("job_new"), at=1),
        make_letter(make_job("job_marked"), at=2, replayed_at=3, replayed_as="job_x"),
        make_letter(make_job("job_made"), at=3),
        make_job("job_y", replay_of="job_made"),
        make_job("job_z", "globex", replay_of="job_new"),
    )
    assert listed_letters(connection, not_replayed="true") == ["job_new"]
    assert listed_letters(connection) == ["job_made", "job_marked", "job_new"]


def test_letters_are_selected_by_a_part_of_their_error_and_counted_by_what_it_begins_with(
    connection: sqlite3.Connection,
) -> None:
    gone = "PermanentError: no address of"
    fold(
        connection,
        make_letter(make_job("job_a"), at=1, detail=f"{gone} ada", reason="permanent_error"),
        make_letter(make_job("job_b"), at=2, detail="TimeoutError: 100% slow"),
        make_letter(make_job("job_c"), at=3, detail=f"{gone} grace", reason="permanent_error"),
        make_letter(make_job("job_d"), at=4, detail=f"{gone} bob", discarded_at=5),
    )
    assert listed_letters(connection, error="NO ADDRESS") == ["job_c", "job_a"]
    assert listed_letters(connection, error="0%") == ["job_b"]
    found = dead_letters.errors(connection, PageQuery(1))
    assert [(each["count"], each["error"], each["reason"]) for each in found["errors"]] == [
        (2, "PermanentError", "permanent_error")
    ]
    assert found["more"]
    found = dead_letters.errors(connection, PageQuery(9, None, {"error": "slow"}))
    assert ([(each["count"], each["error"]) for each in found["errors"]], found["more"]) == (
        [(1, "TimeoutError")],
        False,
    )
    chosen = letters_to_replay.selected(connection, {"error": "grace"}, 10, None)
    assert [job.id for job in chosen.jobs] == ["job_c"]
