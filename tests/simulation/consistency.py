"""What stages hold in memory, on topics and in stores agrees, also after a step is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import derived as of_dispatcher
from support import derived_deliveries
from support.derived import after_an_abort, faults, processor, rebuilt
from support.permit_checks import overruns

from simulation.outside import Violation
from streams.runtime.backends import backend_for, fold
from streams.runtime.task import Task
from streams.serde.keys import after
from streams.state.indexed import INDEX
from streams.state.memory import MemoryTables

if TYPE_CHECKING:
    from simulation.world import World


def derived(world: World) -> None:
    """What each dispatcher holds in memory is what its stores say, also after an abort.

    Raises:
        Violation: it is not.
    """
    for partition in range(world.partitions):
        task = world.cluster.task("dispatcher", partition)
        held, stored = of_dispatcher.derived(processor(task)), rebuilt(task)
        if held != stored:
            raise Violation("derived", f"{partition}: {held}, in the stores: {stored}")
        whole = world.cluster.whole("dispatcher", partition)
        before, now = after_an_abort(task, whole)
        changed = {name: (old, now[name]) for name, old in before.items() if old != now[name]}
        if changed:
            raise Violation("undone", f"{partition}: {changed}")
        for fault in faults(task):
            raise Violation("inconsistent", f"{partition}: {fault}")
        _published(world, task, partition)
        _deliveries(world, partition)
    _permits(world)


def _permits(world: World) -> None:
    """Limits that all partitions share are overrun nowhere."""
    tasks = {p: world.cluster.task("dispatcher", p) for p in range(world.partitions)}
    parts = {partition: task.stores["parts"] for partition, task in tasks.items()}
    jobs = {partition: task.stores["jobs"] for partition, task in tasks.items()}
    for broken in overruns(parts, jobs, world.wiring.topology().limits):
        raise Violation("overrun", broken)


def _deliveries(world: World, partition: int) -> None:
    """The same of each delivery stage."""
    task = world.cluster.task("delivery", partition)
    held = derived_deliveries.derived(derived_deliveries.deliveries(task))
    stored = derived_deliveries.derived(derived_deliveries.rebuilt(task))
    if held != stored:
        raise Violation("derived", f"{partition}: {held}, in the stores: {stored}")
    whole = world.cluster.run_of("delivery").tasks[partition]
    before, now = derived_deliveries.after_an_abort(task, whole)
    changed = {name: (old, now[name]) for name, old in before.items() if old != now[name]}
    if changed:
        raise Violation("undone", f"{partition}: {changed}")
    for fault in derived_deliveries.faults(task):
        raise Violation("inconsistent", f"{partition}: {fault}")


def _published(world: World, task: Task, partition: int) -> None:
    """The topic `jobs` says of each job what its dispatcher's store says."""
    newest = {r.key: r.value for r in world.cluster.records["jobs", partition]}
    jobs = {key: value for key, value in newest.items() if value is not None}
    rows = dict(task.stores["jobs"].range(after(INDEX), b"\xff" * 64))
    if jobs != rows:
        raise Violation("unpublished", f"{partition}: {jobs.keys() ^ rows.keys()}")


def folds(world: World) -> None:
    """G6: each store is the fold of its changelog.

    Raises:
        Violation: one is not.
    """
    for stage, spec, partition, overlay, log in world.cluster.stores():
        folded = backend_for(spec, MemoryTables())
        changes = folded.from_changelog((r.key or b"", r.value) for r in log)
        newest = max((r.timestamp for r in log), default=0)
        fold(folded, changes, newest, len(log), 0)
        everything = (b"", b"\xff" * 64)
        if list(overlay.range(*everything)) != list(folded.range(*everything)):
            raise Violation("fold", f"{stage}/{spec.name}-{partition}")
