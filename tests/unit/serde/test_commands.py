"""Every command has its kind, in the order of the schema."""

from __future__ import annotations

import pytest

from streams.serde.codec import COMMAND
from streams.serde.records import Cancel, Command
from streams.serde.records.command_kinds import CommandKind
from streams.serde.records.commands import COMMANDS, kind_of


def test_every_command_has_one_kind_in_the_order_of_the_schema() -> None:
    (body,) = (f for f in COMMAND.schema.parsed["fields"] if f["name"] == "body")
    named = [each["name"].rpartition(".")[2] for each in body["type"]]
    assert named == [kind.name for kind in COMMANDS]


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.name)
def test_only_an_operators_command_is_answered_and_only_a_report_is_of_a_moment(
    kind: CommandKind,
) -> None:
    assert kind.sender == "operator" or not kind.is_answered
    assert kind.sender == "worker" or not kind.of_a_moment


def test_a_commands_kind_is_found() -> None:
    command = Command("cmd_1", "acme", "job_1", 0, 0, Cancel("", None))
    assert kind_of(command).name == "Cancel"
