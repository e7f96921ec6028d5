"""Lists of jobs and dead letters at the width of a terminal, and without one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streams.api.dead_letters import cli_tables as letter_tables
from streams.api.events import cli_tables as event_tables
from streams.api.jobs import cli_tables as job_tables
from streams.api.quarantine.cli_tables import quarantined
from streams.api.rejections.cli import LIST as REJECTIONS
from streams.cli.lists import listed
from streams.cli.tables import Show

ID = "job_d8utnr6f0dbu0aulueh5k9hsqk"


def job(**changes: Any) -> dict[str, Any]:
    return {
        "job_id": ID,
        "tenant_id": "acme",
        "type": "answer_ticket",
        "status": "needs_review",
        "attempts": 3,
        "created_at": "2026-11-21T14:00:22.123Z",
        "last_error": None,
        **changes,
    }


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output counts as a terminal of 80 characters."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


def shown(capsys: pytest.CaptureFixture[str], *jobs: dict[str, Any]) -> list[str]:
    job_tables.jobs({"jobs": list(jobs), "next_cursor": None})
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("error", [None, "TimeoutError: no answer\nwithin 20 seconds" * 9])
@pytest.mark.parametrize("tenant", ["acme", "a-tenant-of-the-longest-name-that-is-given"])
def test_at_80_characters_ids_states_and_times_are_whole(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: str, tenant: str
) -> None:
    lines = shown(capsys, job(last_error=error, tenant_id=tenant))
    assert max(map(len, lines)) <= 80
    for whole in (ID, tenant, "needs_review", "2026-11-21 14:00:22Z"):
        assert whole in " ".join(lines)
    assert lines[-1] == "no room for: attempts; --json shows all"


def waits(reason: str, detail: str) -> dict[str, Any]:
    """What the API says of a job that waits."""
    times = {"since": "2026-11-21T14:00:22Z", "until": "2026-11-22T14:00:22Z"}
    parked = {"kind": "event", "name": "answer", **times, "parked": True}
    listens = {**parked, "since": "2026-11-20T14:00:22Z", "parked": False}
    return {"waits": [listens, parked], "why": {"reason": reason, "detail": detail}}


@pytest.mark.parametrize("narrow", [False, True])
def test_a_list_says_what_a_job_waits_for_since_when_and_until_when(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], narrow: bool
) -> None:
    if narrow:
        request.getfixturevalue("terminal")
    told = 'an event that matches {"subject":"t1"} (answer), until 2026-11-22T14:00:22Z'
    outside = job(status="waiting", **waits("outside", f"it waits for {told}"))
    effect = job(status="scheduled", **waits("effect", "effect a/b is under way"))
    lines = shown(capsys, outside, effect, job())
    text = "\n".join(lines)
    assert f"{told}, since 2026-11-21T14:00:22Z" in text
    assert ("scheduled: effect" in text, "effect a/b is under way" in text) == (True, True)
    assert text.count("waits for") == (2 if narrow else 1)


EVENT_ID = "evt_01a1fe75-b9c2-77c7-bd07-45821f07d1f7"
AT = "2026-11-21T14:00:22.123Z"
LISTS: dict[str, tuple[Show, dict[str, Any]]] = {
    "jobs": (job_tables.jobs, job(last_error="TimeoutError: no answer")),
    "dead_letters": (
        letter_tables.dead_letters,
        {
            "id": ID,
            "tenant_id": "acme",
            "kind": "job",
            "type": "answer_ticket",
            "at": AT,
            "reason": "attempts_exhausted",
            "attempts": 5,
            "replayed_at": AT,
            "detail": "slow " * 20,
            "replay_outcome": None,
            "replayed_status": None,
        },
    ),
    "quarantine": (
        quarantined,
        {
            "id": EVENT_ID,
            "tenant_id": "acme",
            "source": "zendesk",
            "status": "released",
            "reason": "event_type",
            "received_at": AT,
            "job_id": ID,
        },
    ),
    "duplicates": (
        event_tables.duplicates,
        {
            "fingerprint": "0b" * 16,
            "tenant_id": "acme",
            "count": 1400,
            "first_at": AT,
            "last_at": AT,
            "last_event_id": EVENT_ID,
        },
    ),
    "rejections": (
        REJECTIONS,
        {
            "last_at": AT,
            "tenant_id": "acme",
            "source": "zendesk",
            "reason": "unauthorized",
            "cause": "missing_header",
            "count": 1400,
            "first_at": AT,
        },
    ),
    "held": (
        job_tables.held,
        {
            "reason": "no_worker",
            "jobs": 12,
            "since": AT,
            "partition": 1,
            "pool": "default",
            "type": "answer_ticket",
            "tenant_id": "acme",
            "detail": "no worker handles it " * 5,
        },
    ),
    "events": (
        event_tables.events,
        {
            "event_id": EVENT_ID,
            "tenant_id": "acme",
            "source": "zendesk",
            "size": 163,
            "event_type": "ticket.created",
            "received_at": AT,
            "job_id": ID,
            "subject": "4711",
            "dedup_key": "ticket-4711",
        },
    ),
}


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_fits_the_terminal_with_every_id_and_time_whole(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, width: int
) -> None:
    terminal.setenv("COLUMNS", str(width))
    show, row = LISTS[name]
    show({name: [row], "next_cursor": None})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    told = " ".join(lines)
    for column, value in row.items():
        if column.endswith("id") or column in ("fingerprint", "source", "status"):
            assert str(value) in told
        if value == AT:
            assert "2026-11-21 14:00:22Z" in told


def test_what_has_no_room_beside_an_item_stands_below_it_after_its_title(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show, row = LISTS["quarantine"]
    show({"quarantine": [row, {**row, "job_id": None}], "next_cursor": None})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[2:4] == [f"    id {EVENT_ID}", f"    job id {ID}"]
    assert lines[5:] == [f"    id {EVENT_ID}"]


def test_the_status_of_a_job_that_cannot_run_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why: dict[str, Any] = {"reason": "no_worker", "since": None, "detail": "", "caps": []}
    held = shown(capsys, job(status="pending", why=why))[1]
    assert "pending: no_worker" in held
    why["reason"] = "turn"
    assert "pending:" not in shown(capsys, job(status="pending", why=why))[1]


def test_an_error_is_cut_to_30_characters_before_an_id_gets_a_line_of_its_own(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "150")
    type_ = "answer_a_ticket_within_two_days"
    line = shown(capsys, job(type=type_, last_error="TimeoutError: no answer" * 3))[1]
    for whole in (ID, "acme", type_, "needs_review", "2026-11-21 14:00:22Z"):
        assert whole in line
    assert line.endswith("…")


def test_what_a_person_wants_first_is_whole_at_110_characters(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cause of a dead letter, beside columns without a value, and a worker's name."""
    terminal.setenv("COLUMNS", "110")
    cause = "PermanentError: no address of grace"
    letter = {**LISTS["dead_letters"][1], "detail": cause, "replayed_at": None}
    letter_tables.dead_letters({"dead_letters": [letter, letter], "next_cursor": None})
    head, first, *_ = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert head.split()[:2] == ["reason", "type"]
    assert "replay" not in head
    assert cause in first
    for outcome in ({"replay_outcome": "superseded"}, {"replayed_status": "needs_review"}):
        letter_tables.dead_letters({"dead_letters": [{**letter, **outcome}], "next_cursor": None})
        assert next(iter(outcome.values())) in capsys.readouterr().out
    run = {
        "attempt": 1,
        "kind": "error",
        "at": AT,
        "error": cause * 2,
        "worker_id": "default:0/01a22153-9b26-7707-98ec-86dce9eb522d",
    }
    listed([run], job_tables._HISTORY, None)
    assert "default:0  PermanentError: no address of grace" in re.sub(
        r"\x1b\[[0-9;]*m", "", capsys.readouterr().out
    )


def test_a_pipe_gets_every_column_whole_in_one_line_a_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    error = "TimeoutError: no answer within 20 seconds " * 20
    _, line = shown(capsys, job(last_error=error))
    assert line.split()[:7] == [
        "needs_review",
        "answer_ticket",
        "acme",
        "2026-11-21",
        "14:00:22Z",
        "3",
        ID,
    ]
    assert error.strip() in line


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == ["none"]
