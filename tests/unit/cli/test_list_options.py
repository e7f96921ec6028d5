"""A command that lists has an option for each filter of its list, and for nothing else."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import typer
from support.operator_api import OperatorApi
from typer.testing import CliRunner

from streams.api.rows.paging import Listing, PagedList
from streams.api.tables import LISTINGS
from streams.cli.main import application

COMMANDS = {
    "/v1/held": "jobs held",
    "/v1/effects/unknown": "jobs review",
    "/v1/duplicates": "events duplicates",
}
"""The commands of lists that are not named as their path."""
VALUES = {"--since": "2026-01-01T00:00:00Z", "--limit": "7", "--kind": "job"}
"""What is given for options that do not take any text."""


def words_of(path: str) -> list[str]:
    """The words of the command that lists what is at a path."""
    return COMMANDS.get(path, f"{path.removeprefix('/v1/')} list").split()


def options_of(words: list[str]) -> list[str]:
    """Each option of a command with a value, but those of its connection and its output."""
    command: Any = typer.main.get_command(application([]))
    for word in words:
        command = command.commands[word]
    given = list[str]()
    for option in command.params:
        name = option.opts[0]
        if name in ("--url", "--token-file", "--data-dir", "--json"):
            continue
        given += [name] if option.is_flag else [name, VALUES.get(name, "x")]
    return given


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.paths[0])
def test_a_command_has_the_filters_of_its_list(
    operator: OperatorApi, listing: Listing | PagedList
) -> None:
    for each in LISTINGS:
        found = {each.name: [], "pauses": [], "circuits": [], "complete": True, "next_cursor": None}
        for path in each.paths:
            operator.on("GET", path.replace("{tenant_id}", "x"), found)
    words = words_of(listing.paths[0])
    given = ["--url", operator.url, *options_of(words)]
    done = CliRunner().invoke(application(words), [*words, *given])
    assert done.exit_code == 0, done.output
    paths = {path.replace("{tenant_id}", "x"): path for path in listing.paths}
    asked = next(u for a in operator.asked if (u := urlsplit(a.path)).path in paths)
    in_path = {name for name in listing.filters if f"{{{name}}}" in paths[asked.path]}
    assert parse_qs(asked.query).keys() - {"limit", "cursor"} | in_path == listing.filters.keys()
