"""The table of commands has every command, as the schema describes it."""

from __future__ import annotations

from typing import get_args

import pytest

from streams.serde.codec import COMMAND
from streams.serde.commands import COMMANDS, CommandKind, kind_of
from streams.serde.records import Cancel, Command, CommandBody, Heartbeat


def test_every_command_has_one_row_in_the_order_of_the_schema() -> None:
    assert tuple(kind.body for kind in COMMANDS) == get_args(CommandBody)
    (body,) = (f for f in COMMAND.schema.parsed["fields"] if f["name"] == "body")
    named = [(each["name"].rpartition(".")[2], each["doc"]) for each in body["type"]]
    assert named == [(kind.name, kind.means) for kind in COMMANDS]


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.name)
def test_only_an_operators_command_is_answered_and_only_a_report_is_of_a_moment(
    kind: CommandKind,
) -> None:
    assert kind.sender == "operator" or not kind.is_answered
    assert kind.sender == "worker" or not kind.of_a_moment


def test_a_commands_row_is_found() -> None:
    command = Command("cmd_1", "acme", "job_1", 0, 0, Cancel("", None))
    assert kind_of(command).body is Cancel
    assert [kind.body for kind in COMMANDS if not kind.names_job] == [Heartbeat]
