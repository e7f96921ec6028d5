"""The rooms of parts: no two parts own the same keys or commands, none imports another."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from streams.delivery.stage import COMMANDS, INPUTS
from streams.delivery.stage import PARTS as DELIVERY
from streams.delivery.store import KEYS as DELIVERY_KEYS
from streams.dispatcher.stage import PARTS as DISPATCHER
from streams.runtime.part import Declaration, handles, key_spaces, routes
from streams.serde.delivery_records import CommandKind
from streams.topology.load import load

ROOMS: list[tuple[Iterable[bytes], tuple[type[Declaration], ...]]] = [
    ((), DISPATCHER),
    (DELIVERY_KEYS, DELIVERY),
]
PARTS = (*DISPATCHER, *DELIVERY)


@pytest.mark.parametrize(("shared", "parts"), ROOMS, ids=["dispatcher", "delivery"])
def test_a_part_with_another_s_keys_is_refused(
    shared: Iterable[bytes], parts: tuple[type[Declaration], ...]
) -> None:
    taken = next(key for part in parts for key in part.keys)

    class Other(Declaration):
        keys: ClassVar = {taken: "something else"}

    with pytest.raises(ValueError, match=f"Other and .* both claim {taken!r}"):
        key_spaces((*parts, Other), shared)


def test_a_part_with_another_s_command_is_refused() -> None:
    class Other(Declaration):
        @handles("retry")
        def retry(self, *_: Any) -> None: ...

    with pytest.raises(ValueError, match="Other and Commands both claim 'retry'"):
        routes((*DELIVERY, Other))


def test_every_command_and_input_of_the_delivery_stage_has_a_part() -> None:
    assert set(COMMANDS) == set(get_args(CommandKind))
    assert set(INPUTS) == set(load().stages["delivery"].reads)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__module__)
def test_a_part_imports_no_other_part(part: type[Declaration]) -> None:
    path = Path(str(sys.modules[part.__module__].__file__))
    found = {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in {p.__module__ for p in PARTS}
    }
    assert found == set()
