"""Random trees of jobs, whatever fails meanwhile; and faults, which they find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
from support.forest import Broken, Forest

from streams.dispatcher import children, gathers, tree
from streams.dispatcher.parts import children as children_part
from streams.dispatcher.parts import gathers as gathers_part
from streams.new_jobs import FIRST, from_child
from streams.serde.ids import child_job_id

FEW, SEEDS, PARTS, STEPS = 8, 200, 4, 40
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


def _first_child_before_the_seal() -> list[Any]:
    def add(self: Any, step: Any, command: Any, body: Any, at: int) -> None:
        job = step.leased(command.job_id)
        if job is None or job.cancel_requested or gathers.find(step, job, body.id) is not None:
            original(self, step, command, body, at)
        else:
            children.make(step, tree.in_workflow(step, job), body.children[0], body.id)

    original = gathers_part.Gathers.add
    return [patch.object(gathers_part.Gathers, "add", add)]


def _child_made_twice() -> list[Any]:
    def make(step: Any, parent: Any, spec: Any, gather: str = "") -> Any:
        id_ = child_job_id(parent.tenant_id, parent.scope, spec.call)
        made = from_child(id_, parent, spec, gather, step.topology, place=FIRST, now=step.now)
        return children._admit(step, made)

    return [patch.object(part, "make", make) for part in (children_part, gathers_part)]


def _grandchild_after_cancel() -> list[Any]:
    part = children_part.Children
    return [
        patch.object(part, "may_go_on", lambda *_: True),
        patch.object(children_part, "stop_below", lambda *_: None),
    ]


def _end_not_counted() -> list[Any]:
    return [patch.object(gathers_part.Gathers, "_count", lambda *_: None)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (_first_child_before_the_seal, {"unsealed"}),
        (_child_made_twice, {"made_twice"}),
        (_grandchild_after_cancel, {"begun_below", "left_alive"}),
        (_end_not_counted, {"uncounted"}),
    ],
)
def test_a_fault_is_found(fault: Callable[[], list[Any]], names: set[str]) -> None:
    with ExitStack() as stack:
        for each in fault():
            stack.enter_context(each)
        found = next(filter(None, map(broken, range(FAULTY_SEEDS))), None)
    assert found is not None
    assert found[0] in names, found
