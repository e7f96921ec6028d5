"""Lists of jobs and dead letters at the width of a terminal, and without one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streams.cli import tables

ID = "job_d8utnr6f0dbu0aulueh5k9hsqk"


def job(**changes: Any) -> dict[str, Any]:
    return {
        "job_id": ID, "tenant_id": "acme", "type": "answer_ticket", "status": "needs_review",
        "attempts": 3, "created_at": "2026-11-21T14:00:22.123Z", "last_error": None, **changes,
    }  # fmt: skip


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output counts as a terminal of 80 characters."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return monkeypatch


def shown(capsys: pytest.CaptureFixture[str], *jobs: dict[str, Any]) -> list[str]:
    tables.jobs({"jobs": list(jobs), "next_cursor": None})
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("error", [None, "TimeoutError: no answer\nwithin 20 seconds" * 9])
@pytest.mark.parametrize("tenant", ["acme", "a-tenant-of-the-longest-name-that-is-given"])
def test_at_80_characters_ids_and_states_are_whole_and_a_job_is_one_line(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: str, tenant: str
) -> None:
    lines = shown(capsys, job(last_error=error, tenant_id=tenant), job())
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines] == ["job", ID, ID, "no"]
    assert [line.count("needs_review") for line in lines[1:3]] == [1, 1]
    assert lines[3] == "no room for: attempts, created at; --json shows all"


def test_another_jobs_id_gives_way_to_what_a_quarantined_body_is_about(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = "evt_01a1fe75-b9c2-77c7-bd07-45821f07d1f7"
    body = {
        "id": event_id, "tenant_id": "acme", "source": "zendesk", "status": "waiting",
        "reason": "event_type", "received_at": "2026-11-21T14:00:22.123Z", "job_id": ID,
    }  # fmt: skip
    tables.quarantined({"quarantine": [body], "next_cursor": None})
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert text.splitlines()[1].split() == [event_id, "acme", "zendesk", "waiting", "event_type"]
    assert max(map(len, text.splitlines())) <= 80


def test_of_duplicates_80_characters_hold_what_came_again_how_often_and_when(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    again = {
        "fingerprint": "0b" * 16, "tenant_id": "acme", "count": 1400,
        "first_at": "2026-11-18T14:00:22.123Z", "last_at": "2026-11-21T14:00:22.123Z",
        "last_event_id": "evt_01a1fe75-b9c2-77c7-bd07-45821f07d1f7",
    }  # fmt: skip
    tables.duplicates({"duplicates": [again], "next_cursor": None})
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert text.splitlines()[1].split() == ["0b" * 16, "acme", "1400", "2026-11-21", "14:00:22Z"]
    assert max(map(len, text.splitlines())) <= 80


def test_the_error_is_cut_before_anything_else(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "130")
    type_ = "answer_a_ticket_within_two_days"
    line = shown(capsys, job(type=type_, last_error="TimeoutError: no answer"))[1]
    for whole in (ID, "acme", type_, "needs_review", "2026-11-21 14:00:22Z"):
        assert whole in line
    assert line.endswith("…")


def test_a_pipe_gets_every_column_whole_in_one_line_a_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    error = "TimeoutError: no answer within 20 seconds " * 20
    _, line = shown(capsys, job(last_error=error))
    assert line.split()[:7] == [
        ID, "acme", "answer_ticket", "needs_review", "3", "2026-11-21", "14:00:22Z",
    ]  # fmt: skip
    assert error.strip() in line


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == ["none"]
