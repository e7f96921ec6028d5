"""What a delivery stage derives from its stores, and the same of one just built from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from streams.delivery import queue
from streams.delivery.part import Part
from streams.delivery.parts.commands import Commands
from streams.delivery.parts.fan_out import FanOut
from streams.delivery.parts.outcomes import Outcomes
from streams.delivery.parts.sending import Sending
from streams.delivery.stage import Deliveries
from streams.runtime.partition_task import PartitionTask
from streams.runtime.task import Task
from streams.serde.keys import after

P = TypeVar("P", bound=Part)


def deliveries(task: Task) -> Deliveries:
    """The processor of a delivery stage's task."""
    found = task._processor._processor
    assert isinstance(found, Deliveries)
    return found


def derived(found: Deliveries) -> dict[str, Any]:
    """What a delivery stage can build from its stores alone."""
    shared = found.shared
    return {
        "endpoints": {e.place: (e.record, e.settings, e.since, e.state) for e in shared.endpoints},
        "closed": (set(shared.closed.disabled), set(shared.closed.erased)),
        "tests": dict(shared.ready.tests),
        "catching up": set(shared.catching_up),
        "commands": part(found, Commands)._waiting.newest,
    }


def rebuilt(task: Task) -> Deliveries:
    """A delivery stage that was just built from the task's stores."""
    own = deliveries(task).shared
    slots = own.in_flight.slots
    fresh = Deliveries(own.sender, own.history, slots, own.rules, own.partition)
    for _ in fresh.restored(task.ctx):
        pass
    return fresh


def after_an_abort(task: Task, whole: PartitionTask) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a step must leave as it was if it is taken back: before such a step, and after it."""
    found = deliveries(task)
    before = _undoable(found)
    whole.punctuate()
    whole.finish()
    whole.rollback()
    return before, _undoable(found)


def faults(task: Task) -> Iterator[str]:
    """What will never be sent, and what is kept in memory for nothing."""
    found, fresh = deliveries(task), rebuilt(task)
    shared = found.shared
    if not set(part(fresh, FanOut).behind) <= set(part(found, FanOut).behind):
        yield "a tenant's messages wait for ever"
    if task.ctx.log:
        yield f"left over: {task.ctx.log._undo}"
    ended = {each.row.delivery_id for each in part(found, Outcomes)._undone}
    turns = shared.ready.rotation, part(found, Sending).unproven
    for endpoint in shared.endpoints:
        if not shared.is_open(endpoint):
            continue
        prefix, place = endpoint.prefix, endpoint.place
        keys = [key for key, _ in task.stores["queue"].range(prefix, after(prefix))]
        waiting = [k for k in keys if queue.id_of(k, prefix) not in {*ended, *_in_flight(found)}]
        cursor = shared.ready.cursors.get(place, b"")
        if any(key < cursor for key in waiting):
            yield f"{place}: rows before the cursor"
        has_turn = any(place in (r._waiting | r._wakes.keys()) for r in turns)
        if waiting and not has_turn and not shared.in_flight.count(place) and not ended:
            yield f"{place}: no turn"


def part(found: Deliveries, kind: type[P]) -> P:
    """One part of a delivery stage."""
    one = found._parts[kind]
    assert isinstance(one, kind)
    return one


def _in_flight(found: Deliveries) -> set[str]:
    return set(found.shared.in_flight._rows)


def _undoable(found: Deliveries) -> dict[str, Any]:
    fan_out = part(found, FanOut)
    return derived(found) | {
        "windows": {e.place: e for e in found.shared.endpoints},
        "behind": set(fan_out.behind),
        "counts": (fan_out._made, fan_out._kept),
        "commands": part(found, Commands)._waiting,
    }
