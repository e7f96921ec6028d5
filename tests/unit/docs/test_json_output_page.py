"""`docs/json-output.md` has each command with `--json`, and the keys that the code prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from support.json_output_page import ROWS, keys_of
from typer.testing import CliRunner

from streams.api.events import cli_seek as event_seek
from streams.api.tables import LISTINGS
from streams.cli import doctor, topology
from streams.cli.main import application
from streams.doctor.finding import Report
from streams.event_reader.counts import Counts
from streams.topology.plan import Plan


def with_json(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from with_json(command, (*path, name))
        elif any("--json" in option.opts for option in command.params):
            yield " ".join((*path, name))


def test_the_page_has_every_command_with_json_and_no_other() -> None:
    commands = list(with_json(typer.main.get_command(application([]))))
    assert sorted(ROWS) == sorted(commands)


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.name)
def test_a_list_is_named_as_the_api_names_it(listing: Any) -> None:
    named = {k for k in ROWS.values() if re.match(f"`{listing.name}`(, .*)?, `next_cursor`", k)}
    assert len(named) == 1


def printed(*words: str) -> list[str]:
    return list(json.loads(CliRunner().invoke(topology.app, [*words, "--json"]).stdout))


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("topology validate", lambda: printed("validate")),
        ("topology describe", lambda: printed("describe")),
        ("topology size", lambda: printed("size", "--events", "1", "--jobs", "1")),
        ("topology plan", lambda: list(topology._plan_json(Plan((), ()), False))),
        ("events seek", lambda: list(event_seek._json("g", [], applied=False))),
        ("events count", lambda: [*Counts().json(), "unreadable", "notes"]),
        ("doctor", lambda: list(doctor._json(Report((), reached=True)))),
    ],
)
def test_a_command_prints_the_keys_of_the_page(command: str, keys: Any) -> None:
    assert keys_of(command) == keys()
