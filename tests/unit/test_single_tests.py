"""In what order the tests of `make test` are handed out."""

from __future__ import annotations

from itertools import pairwise

from support.single_tests import TOGETHER, chosen, mixed

BROKER = "tests/integration/test_a.py::test_{}"
QUICK = "tests/unit/test_{}.py"


def test_tests_that_wait_are_spread_among_those_that_use_the_cores() -> None:
    units = {BROKER.format(n): {BROKER.format(n): False} for n in range(4)}
    units |= {QUICK.format(n): {f"{QUICK.format(n)}::test": False} for n in range(40)}
    together = sorted(TOGETHER)[0]
    units[together] = {f"{together}::test_{n}": False for n in range(3)}
    order = list(mixed(units))
    assert sorted(order) == sorted(units)
    waiting = [n for n, unit in enumerate(order) if not unit.startswith("tests/unit/")]
    assert order[0] == together
    gaps = [after - before for before, after in pairwise(waiting)]
    assert all(7 <= gap <= 9 for gap in gaps)
    assert len(order) - waiting[-1] > 8, "quick ones are left for the end"


def test_a_run_without_a_broker_keeps_its_order() -> None:
    units = {QUICK.format(n): {"test": False} for n in range(5)}
    assert list(mixed(units)) == list(units)


def test_whole_pipelines_leave_each_other_the_cores() -> None:
    pipeline, quick = "tests/acceptance/test_demo.py", QUICK.format(1)
    assert chosen([pipeline, quick], 2) == pipeline
    assert chosen([pipeline, quick], 3) == quick
    assert chosen([pipeline], 3) == pipeline, "nothing else is left"
