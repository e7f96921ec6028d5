"""Random trees of jobs, whatever fails meanwhile; and faults, which they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.forest import Broken, Forest
from support.tree_faults import (
    child_made_twice,
    end_not_counted,
    first_child_before_the_seal,
    grandchild_after_cancel,
)

from streams.dispatcher.parts import children as children_part
from streams.dispatcher.parts import gathers as gathers_part

FEW, SEEDS, PARTS, STEPS = 8, 32, 4, 40
FAULTY_SEEDS = 300


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that most of what is done takes several steps."""
    monkeypatch.setattr(children_part, "AT_ONCE", 3)
    monkeypatch.setattr(gathers_part, "AT_ONCE", 3)


def broken(seed: int) -> tuple[str, str] | None:
    """The invariant that does not hold in the story of a seed."""
    try:
        Forest(seed).play(STEPS)
    except Broken as found:
        name, detail = found.args
        return name, detail
    return None


@pytest.mark.parametrize("seed", range(FEW))
def test_every_promise_holds(seed: int) -> None:
    assert broken(seed) is None


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_for_long(part: int) -> None:
    for seed in range(FEW + part, SEEDS, PARTS):
        assert broken(seed) is None, seed


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (first_child_before_the_seal, {"unsealed"}),
        (child_made_twice, {"made_twice"}),
        (grandchild_after_cancel, {"begun_below", "left_alive"}),
        (end_not_counted, {"uncounted"}),
    ],
)
def test_a_fault_is_found(fault: Callable[[], Any], names: set[str]) -> None:
    with fault():
        found = next(filter(None, map(broken, range(FAULTY_SEEDS))), None)
    assert found is not None
    assert found[0] in names, found
