"""The parts of the dispatcher: every command and input has one, and no two own the same keys."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar, get_args

import pytest

from streams.dispatcher import parts
from streams.dispatcher.part import Part
from streams.dispatcher.stage import PARTS
from streams.runtime.part import key_spaces
from streams.serde.records import CommandBody
from streams.topology.load import load

FOLDER = Path(parts.__file__).parent


def test_every_command_has_one_part() -> None:
    handled = [body for part in PARTS for body in part.commands]
    assert len(handled) == len(set(handled))
    assert set(handled) == set(get_args(CommandBody))


def test_every_input_but_the_commands_has_one_part() -> None:
    read = [topic for part in PARTS for topic in part.inputs]
    assert sorted([*read, "jobs.commands"]) == sorted(load().stages["dispatcher"].reads)


def test_two_parts_with_the_same_keys_are_refused() -> None:
    class Other(Part):
        keys: ClassVar = {b"p": "something else"}

    with pytest.raises(ValueError, match="Other and Submissions both claim b'p'"):
        key_spaces((), (*PARTS, Other))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_part_imports_no_other_part(path: Path) -> None:
    owned = {part.__module__ for part in PARTS}
    found = {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in owned
    }
    assert found == set()
