"""The help of each command has an example that can be typed in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from streams.cli.main import application
from streams.stages import STAGES

_EXAMPLE = re.compile(r"^Example: (tidegate .+)$", re.MULTILINE)


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


ROOT: Any = typer.main.get_command(application([]))
COMMANDS = {name: each for name, each in _commands(ROOT) if name not in STAGES}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_of_itself(name: str) -> None:
    examples = _EXAMPLE.findall(COMMANDS[name].help or "")
    assert examples
    assert all(each.startswith(f"tidegate {name}") for each in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_examples_flags_are_options_of_the_command(name: str) -> None:
    known = {flag for option in COMMANDS[name].params for flag in option.opts}
    for example in _EXAMPLE.findall(COMMANDS[name].help or ""):
        words = shlex.split(re.split(r" (?:[|>&]|&&) ", example)[0])
        assert {word for word in words if word.startswith("--")} <= known


ALL = dict(_commands(ROOT))


@pytest.mark.parametrize("name", ALL)
def test_a_value_is_named_by_what_it_is(name: str) -> None:
    """Not by its type, such as TEXT: ID, TENANT, TIME."""
    valued = [each for each in ALL[name].params if not getattr(each, "is_flag", False)]
    assert [each.name for each in valued if not each.metavar] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_asks_the_api_or_kafka_can_be_told_where_dev_runs(name: str) -> None:
    flags = {flag for option in COMMANDS[name].params for flag in option.opts}
    assert "--data-dir" in flags or not flags & {"--url", "--bootstrap"}
