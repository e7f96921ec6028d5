"""The parts of the dispatcher: every command and input has one."""

from __future__ import annotations

from typing import get_args

from streams.dispatcher.stage import PARTS
from streams.serde.records import CommandBody
from streams.topology.load import load


def test_every_command_has_one_part() -> None:
    handled = [body for part in PARTS for body in part.commands]
    assert len(handled) == len(set(handled))
    assert set(handled) == set(get_args(CommandBody))


def test_every_input_but_the_commands_has_a_part() -> None:
    read = {topic for part in PARTS for topic in part.inputs}
    assert read | {"jobs.commands"} == set(load().stages["dispatcher"].reads)
