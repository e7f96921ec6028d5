"""The simulation in `make test`: seeds hold, injected faults are found, stories shrink.

`make simulate` plays as many seeds as one likes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from simulation.command import told
from simulation.injected_faults import INJECTED_FAULTS
from simulation.run import Failure, play, shrink, silent
from simulation.story import Op, draw
from simulation.tree_jobs import TREE

SEEDS, TREES = 200, 12
PARTS = 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with silent():
        yield


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_guarantee_holds(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        failure = play(draw(seed))
        assert failure is None, told(shrink(failure, 10))


@pytest.mark.long
def test_every_guarantee_holds_in_trees() -> None:
    for seed in range(TREES):
        failure = play(draw(seed, types=(TREE,)))
        assert failure is None, told(shrink(failure, 10))


def test_a_seed_is_the_same_story_each_time() -> None:
    assert _trace(7) == _trace(7) != _trace(8)


@pytest.mark.long
@pytest.mark.parametrize("name", INJECTED_FAULTS)
def test_an_injected_fault_is_found(name: str) -> None:
    failure = _injected(name)
    fault = INJECTED_FAULTS[name]
    assert failure is not None, f"not within {fault.seeds} seeds"
    assert failure.name in fault.breaks, told(failure)


def test_two_partitions_do_not_exchange_two_permits_for_ever() -> None:
    """Their jobs need both, each has one, and claims take so long that turns end meanwhile."""
    drawn = draw(4, types=("refund",))
    *_, types = drawn.setup["workers"][0]
    setup = {
        **drawn.setup,
        **{"partitions": 2, "fused": False, "rounds": 6, "at_once": 0, "unrouted": []},
        **{"cap": 0, "breaker": 0, "limits": (0, False), "tool_cap": 1, "shared": 1},
        "workers": [("w1", "default", 4, types), ("w2", "default", 1, types)],
    }
    ops = (Op(5, "deliver", ("acme", "0", "refund")), Op(8, "deliver", ("globex", "0", "refund")))
    failure = play(replace(drawn, setup=setup, ops=ops))
    assert failure is None, told(failure)


def test_a_failure_is_told_by_its_shortest_story() -> None:
    name = "8 impatient with types"
    found = _injected(name)
    assert found is not None
    with INJECTED_FAULTS[name].put():
        short = shrink(found, 10)
        assert play(short.story) == short
    assert len(short.story.ops) < len(found.story.ops)
    assert f"--seed {found.story.seed}" in told(short)


def _injected(name: str) -> Failure | None:
    fault = INJECTED_FAULTS[name]
    with fault.put():
        for story in fault.stories():
            failure = play(story)
            if failure is not None:
                return failure
    return None


def _trace(seed: int) -> str:
    digest = hashlib.blake2b()
    play(draw(seed), lambda *what: digest.update(repr(what).encode()))
    return digest.hexdigest()
