"""The parts of the dispatcher: every command, end of a run and input has one."""

from __future__ import annotations

from typing import get_args

from streams.dispatcher.stage import PARTS
from streams.serde.records import CommandBody
from streams.serde.run_ends import ReportedEnd
from streams.topology.load import load


def test_every_command_and_end_of_a_run_has_one_part() -> None:
    handled = [key for part in PARTS for key in part.commands]
    assert len(handled) == len(set(handled))
    assert set(handled) == {*get_args(CommandBody), *get_args(ReportedEnd)}


def test_every_input_but_the_commands_has_a_part() -> None:
    read = {topic for part in PARTS for topic in part.inputs}
    assert read | {"jobs.commands"} == set(load().stages["dispatcher"].reads)
