"""What the outcomes of calls do to the circuits of their tools.

The store `parts` keeps `b` tool: when its calls failed and until when its circuit is open, as JSON
in milliseconds of the machine's clock.
"""

from __future__ import annotations

from dataclasses import replace

import orjson
import structlog

from streams.dispatcher.step import Step
from streams.limits.buckets import CIRCUIT, Bucket
from streams.limits.circuits import Circuit, Circuits, is_open
from streams.runtime.processor import Context
from streams.serde.keys import after
from streams.serde.records import Job

_CIRCUIT = b"b"
KEYS = {_CIRCUIT: "circuits of tools whose calls failed"}

log = structlog.get_logger(__name__)


def heard(step: Step, tool: str, *, failed: bool) -> None:
    """Follow the outcome of a call: it failed by the tool's fault, or was done."""
    limited = step.shared.queue.limited
    circuits = limited.caps.circuits
    if not circuits.are_declared:
        return
    for old in circuits.stale(step.monotonic):
        if old != tool:
            _set(step, circuits, old, None)
    before = circuits.get(tool)
    now = circuits.after(tool, failed=failed, now=step.monotonic)
    if now == before:
        return
    _set(step, circuits, tool, now)
    limited.look_at(Bucket(CIRCUIT, "", tool))
    if is_open(before) != is_open(now) or (is_open(now) and failed):
        what = "circuit of a tool opened: its calls wait" if failed else "circuit of a tool closed"
        log.warning(what, tool=tool, partition=step.shared.partition)


def without_closed(step: Step, job: Job) -> Job:
    """The job without places in circuits that are closed by now."""
    known = step.shared.queue.limited.caps.circuits
    keys = tuple(k for k in job.limit_keys if k.limit != CIRCUIT or known.bucket(k.key))
    return job if keys == job.limit_keys else replace(job, limit_keys=keys)


def restore(ctx: Context, circuits: Circuits) -> None:
    """Go on with the circuits as an earlier owner of the partition left them."""
    for key, value in ctx.store("parts").range(_CIRCUIT, after(_CIRCUIT)):
        tool = key.removeprefix(_CIRCUIT).decode()
        breaker = circuits.breaker(tool)
        if breaker is None:
            continue
        failures, until = orjson.loads(value)
        most = ctx.monotonic + breaker.open_seconds
        opened = None if until is None else min(most, _monotonic(ctx, until))
        failed = tuple(min(ctx.monotonic, _monotonic(ctx, each)) for each in failures)
        circuits.set(tool, Circuit(failed, opened))


def _set(step: Step, circuits: Circuits, tool: str, circuit: Circuit | None) -> None:
    step.on_undo(circuits.set, tool, circuits.get(tool))
    circuits.set(tool, circuit)
    _keep(step, tool, circuit)


def _keep(step: Step, tool: str, circuit: Circuit | None) -> None:
    key = _CIRCUIT + tool.encode()
    if circuit is None:
        step.store.delete(key)
        return
    until = None if circuit.open_until is None else _wall(step, circuit.open_until)
    row = [_wall(step, each) for each in circuit.failures], until
    step.store.put(key, orjson.dumps(row))


def _wall(step: Step, monotonic: float) -> int:
    return step.now + round((monotonic - step.monotonic) * 1000)


def _monotonic(ctx: Context, wall: int) -> float:
    return ctx.monotonic + (wall - ctx.now) / 1000
