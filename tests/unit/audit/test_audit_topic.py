"""The check of the topic `audit` names each place where a chain is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from support.audited import CALL
from typer.testing import CliRunner

from streams.api.audit import cli_tail, cli_verify
from streams.api.audit.cli import audit
from streams.audit.chain import Head, head_of, linked
from streams.audit.entries import encoded, of_call
from streams.audit_topic import Check
from streams.serde.codec import AUDIT_ENTRY
from streams.serde.records import DONE


def values(number: int = 4) -> list[bytes]:
    """The records of one chain."""
    head, found = Head("dispatcher:0"), []
    for at in range(number):
        entry = linked(of_call(CALL, "job.cancel", f"job_{at}", DONE, at), head)
        head = head_of(entry)
        found.append(encoded(entry)[1])
    return found


def check_of(records: list[bytes]) -> Check:
    check = Check()
    for offset, value in enumerate(records):
        check.take(0, offset, value)
    return check


def test_whole_chains_are_told_with_their_newest_entry() -> None:
    found = check_of(values()).json()
    assert (found["entries"], found["broken"]) == (4, [])
    assert [(each["chain"], each["seq"]) for each in found["chains"]] == [("dispatcher:0", 4)]


def test_a_missing_entry_and_a_record_that_is_none_are_named() -> None:
    records = values()
    found = check_of([records[0], b"none", *records[2:]]).json()
    assert [(each["offset"], each["id"]) for each in found["broken"]] == [
        (1, None),
        (2, "dispatcher:0:3"),
    ]
    assert found["broken"][1]["why"] == "1 before it, after number 1, are missing"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(records: list[bytes], *options: str) -> Any:
        monkeypatch.setattr(cli_verify, "wait_for_broker", lambda *_: None)
        monkeypatch.setattr(cli_verify, "require_width", lambda *_: None)
        monkeypatch.setattr(cli_verify, "checked", lambda *_: check_of(records))
        return CliRunner().invoke(audit, ["verify", *options])

    return run


def test_the_command_says_that_all_is_whole(run: Any) -> None:
    done = run(values())
    assert (done.exit_code, done.stdout) == (0, "1 chains of 4 entries are whole\n")
    assert json.loads(run(values(), "--json").stdout)["broken"] == []


def test_the_command_names_the_broken_link_and_ends_with_1(run: Any) -> None:
    records = values()
    done = run([records[0], *records[2:]])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == (
        "broken at dispatcher:0:3 (partition 0, offset 1): 1 before it, after number 1, are missing"
    )
    assert run([records[0], *records[2:]], "--json").exit_code == 1


def test_the_command_follows_entries_with_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [AUDIT_ENTRY.decode(value) for value in values(2)]
    odd = replace(entries[1], target="job\x1b[31m\n", outcome="refused", reason="too_early")
    for name in ("wait_for_broker", "require_width"):
        monkeypatch.setattr(cli_tail, name, lambda *_: None)
    monkeypatch.setattr(cli_tail, "followed", lambda *_: iter([entries[0], odd]))
    lines = CliRunner().invoke(audit, ["tail"]).stdout.splitlines()
    assert lines[0] == "1970-01-01T00:00:00.000Z  token:ann  job.cancel  job_0  done"
    assert (len(lines), "\x1b" in lines[1], lines[1].endswith("too_early")) == (2, False, True)
    shown = CliRunner().invoke(audit, ["tail", "--json"]).stdout.splitlines()
    assert [json.loads(each)["seq"] for each in shown] == [1, 2]
