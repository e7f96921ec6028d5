"""How pytest-xdist shares out the tests of `make test`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = frozenset(
    {
        "tests/acceptance/test_broker_faults.py",
        "tests/acceptance/test_demo.py",
        "tests/acceptance/test_dev_pipeline.py",
        "tests/acceptance/test_examples_under_dev.py",
        "tests/acceptance/test_missing_rights.py",
        "tests/acceptance/test_traces.py",
        "tests/integration/test_consume_postgres.py",
        "tests/integration/test_container_image.py",
        "tests/integration/test_damaged_inputs.py",
        "tests/integration/test_doctor.py",
        "tests/integration/test_embedded_broker.py",
        "tests/integration/test_embedded_cluster.py",
    }
)
"""Modules whose fixtures start a broker or a database of their own, a whole pipeline, or an
installation, or make all topics."""

_WAITING = ("tests/acceptance/", "tests/integration/")
_BY_MODULE = ("tests/stages/", "tests/unit/")
_MOST_HEAVY = 3
"""So many units that start whole pipelines are with workers at a time, at work or next: more would
keep each other from the cores until something times out."""
_AT_THE_END = 0.1
"""The part of the tests without a broker that is left for the end, when workers run out of work."""


class SingleTests(LoadScopeScheduling):  # type: ignore[misc]
    """A free worker takes the next test, or all tests of a module in `TOGETHER` or `_BY_MODULE`.

    `--dist loadgroup` is meant for this, but xdist 3.8 recognises no group under pytest 9.2. A new
    worker in a crashed one's place would get one test, and wait for the next for ever, so use
    `--max-worker-restart 0`: then a crash ends the run.
    """

    def __init__(self, config: Any, log: Any) -> None:
        config.option.loadscopereorder = False  # `mixed` puts the tests in order
        super().__init__(config, log)
        self.workqueue: OrderedDict[str, dict[str, bool]]
        self._mixed = False

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::", maxsplit=1)[0]
        return module if module in TOGETHER or module.startswith(_BY_MODULE) else nodeid

    def _assign_work_unit(self, node: Any) -> None:
        if not self._mixed:
            self.workqueue = mixed(self.workqueue)
            self._mixed = True
        self.workqueue.move_to_end(chosen(self.workqueue, self._heavy_at_work()), last=False)
        super()._assign_work_unit(node)

    def _heavy_at_work(self) -> int:
        units = (unit for given in self.assigned_work.values() for unit in given.items())
        return sum(is_heavy(unit) and not all(tests.values()) for unit, tests in units)


def chosen(queue: Iterable[str], heavy_at_work: int) -> str:
    """The unit that a free worker takes: the first, or the first that is not heavy."""
    first, *rest = queue
    if heavy_at_work < _MOST_HEAVY:
        return first
    return next((unit for unit in (first, *rest) if not is_heavy(unit)), first)


def is_heavy(unit: str) -> bool:
    """Whether tests start many processes, or a broker of their own."""
    return unit in TOGETHER or unit.startswith("tests/acceptance/")


def mixed(units: Mapping[str, dict[str, bool]]) -> OrderedDict[str, dict[str, bool]]:
    """The tests in the order in which workers take them.

    Tests with a broker mostly wait, so the others are spread among them and use the cores
    meanwhile. Modules that stay together take longest, and are first.
    """
    waiting = sorted((u for u in units if u.startswith(_WAITING)), key=lambda u: u not in TOGETHER)
    busy = [unit for unit in units if not unit.startswith(_WAITING)]
    places = {unit: number / len(waiting) for number, unit in enumerate(waiting)}
    tests, before = sum(len(units[unit]) for unit in busy), 0
    for unit in busy:
        places[unit] = before / (tests * (1 - _AT_THE_END))
        before += len(units[unit])
    return OrderedDict((unit, units[unit]) for unit in sorted(places, key=places.__getitem__))
