"""What the processes of each stage need: how many, cores, memory, disk, time of a restore."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sizing.demand import Demand, Pool
from sizing.figures import Figure, figures, value
from sizing.units import count, span

HEAD_ROOM = 0.6
"""Of what a process was measured to do, this much is planned."""
STORES = {
    "pipeline": ("seen", "jobs", "parts", "ledger"),
    "dedup": ("seen",),
    "scheduler": (),
    "dispatcher": ("jobs", "parts", "ledger"),
    "delivery": ("deliveries", "queue"),
}
"""The stores of each stage whose size follows from the load."""
ENTRIES = {"jobs": 2, "parts": 2}
"""Entries in a store for each thing, if there are several: its record, and when it is forgotten."""
MEASURED_AS = {"dispatcher": "pipeline", "scheduler": "pipeline"}
"""Stages that were measured fused: what the whole pipeline takes is a bound for each."""
_BACKLOG_SECONDS = 3_600
"""Memory is planned for the jobs of this time, waiting."""
_FILTER_BYTES = 1.25
"""Of a key in a store: RocksDB's bloom filters have 10 bits for each."""
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """For how many seconds each kind of thing is in a store, and how far back a restore reads."""

    alive: Mapping[str, float]
    restored: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StageSize:
    """`cores` are of all processes together; memory, `disk` (bytes), restore of the fullest one.

    `busy` is the thread's time a second that all the load needs. `keys` are those in the largest
    store of the fullest process.
    """

    name: str
    processes: int
    busy: float
    cores: float
    memory_mib: float
    disk: float
    restore_seconds: float
    keys: float
    formulas: tuple[str, ...]


def busy(stage: str, rates: Mapping[str, float]) -> float:
    """Seconds of one thread that a second of load takes in a stage."""
    return sum(rates[each.per] * each.value for each in _times(stage)) / 1e6


def _times(stage: str) -> list[Figure]:
    """A scheduler's work depends on delays, which no demand has."""
    return [] if stage == "scheduler" else figures("processor time", MEASURED_AS.get(stage, stage))


def sharing(load: float, capacity: float, largest_tenant: float) -> float:
    """How many processes a load would need, as a fraction, if the partitions divided evenly.

    The process with the largest tenant's partition has that tenant, and its part of the others. A
    tenant that fills most of a process is left to a warning: more processes would not help it.
    """
    even = max(1.0, load / capacity)
    spare = capacity - load * largest_tenant
    if spare < capacity / 4:
        return even
    return max(even, load * (1 - largest_tenant) / spare)


def whole(needed: float, partitions: int) -> int:
    """The fewest processes that suffice with whole partitions, if `needed` do with even shares.

    None has more than `partitions / needed`; no process has less than one.
    """
    most = max(1, math.floor(partitions / needed))
    return math.ceil(partitions / most)


def fullest(processes: int, partitions: int, largest_tenant: float) -> float:
    """The share of the process that has the largest tenant's partition, and as many as any."""
    return largest_tenant + (1 - largest_tenant) * _held(processes, partitions) / partitions


def _held(processes: int, partitions: int) -> int:
    """Partitions of the process that has most."""
    return math.ceil(partitions / processes)


def restore_seconds(stage: str, rates: Mapping[str, float], kept: Kept) -> float:
    """How long one process would take to restore all stores of a stage."""
    return sum(
        _restore_seconds(each, rates, kept)
        for name in STORES.get(stage, ())
        for each in figures("store", name)
    )


def _restore_seconds(each: Figure, rates: Mapping[str, float], kept: Kept) -> float:
    if each.about == "queue":
        return 0.0  # a delivery's row was measured with its entry in the queue
    read = rates[each.per] * kept.restored[each.per]
    return read / value("rate", "restore", "seen" if each.about == "seen" else "rows")


def stage_size(
    stage: str,
    processes: int,
    partitions: int,
    rates: Mapping[str, float],
    kept: Kept,
    demand: Demand,
) -> StageSize:
    """A stage with its stores, in so many processes that share the partitions."""
    needed = busy(stage, rates)
    share = fullest(processes, partitions, demand.largest_tenant)
    stores = [
        _store(each, rates, kept, demand)
        for name in STORES.get(stage, ())
        for each in figures("store", name)
    ]
    disk = sum(store.disk for store in stores)
    memory = _memory(stage, share, disk, sum(store.entries for store in stores), rates)
    formulas = [
        _work(stage, needed, rates),
        "memory: " + " + ".join(f"{mib:,.0f} MiB {what}" for mib, what in memory),
        *(store.formula for store in stores),
    ]
    if stores:
        formulas.append(_fullest(processes, partitions, demand.largest_tenant))
    commits = processes * value("commits", MEASURED_AS.get(stage, stage), "process")
    return StageSize(
        stage,
        processes,
        needed,
        needed + commits,
        sum(mib for mib, _ in memory),
        disk * share,
        sum(store.restore_seconds for store in stores) * share,
        max((store.entries * share for store in stores), default=0.0),
        tuple(formulas),
    )


def operator_size(
    rates: Mapping[str, float], kept: Mapping[str, float], demand: Demand
) -> StageSize:
    """The one operator process; `kept` is for how many seconds the rows of each table are kept.

    Each further process has the same work and the same file again.
    """
    needed, rows, disk, formulas = busy("operator", rates), 0.0, 0.0, []
    for table, seconds in kept.items():
        for each in figures("rows", table):
            number = rates[each.per] * seconds
            bytes_each = each.value + (demand.value_bytes if each.per == "job" else 0)
            rows, disk = rows + number, disk + number * bytes_each
            formulas.append(
                f"table {table}: {count(rates[each.per])}/s x {span(seconds)} x {bytes_each:,.0f} B"
            )
    cores = needed + value("commits", "operator", "process")
    return StageSize(
        "operator",
        1,
        needed,
        cores,
        value("resident", "operator", "process"),
        disk,
        rows / value("rate", "operator", "event"),
        rows,
        (_work("operator", needed, rates), *formulas),
    )


def worker_size(pool: Pool, effects: float) -> StageSize:
    """The workers of a pool: by Little's law, unless their own processor time needs more."""
    rates = {"job": pool.jobs, "effect": pool.jobs * effects}
    needed = busy("worker", rates)
    held = pool.handler_seconds + value("seconds", "lease", "job")
    running = pool.jobs * held
    processes = max(1, math.ceil(running / (pool.slots * HEAD_ROOM)), math.ceil(needed / HEAD_ROOM))
    resident = value("resident", "worker", "process")
    return StageSize(
        f"worker, pool {pool.name}",
        processes,
        needed,
        needed + processes * value("commits", "worker", "process"),
        resident,
        0.0,
        0.0,
        0.0,
        (
            _work("worker", needed, rates),
            f"slots: {count(pool.jobs)} jobs/s x ({pool.handler_seconds:g} s + "
            f"{value('seconds', 'lease', 'job'):g} s for lease and end) = {running:,.0f} busy, of "
            f"{pool.slots} a process x {HEAD_ROOM:g}",
            f"memory of a process: {resident:g} MiB without the handlers' own",
        ),
    )


@dataclass(frozen=True, slots=True)
class _Store:
    entries: float
    disk: float
    restore_seconds: float
    formula: str


def _store(each: Figure, rates: Mapping[str, float], kept: Kept, demand: Demand) -> _Store:
    rate, seconds = rates[each.per], kept.alive[each.per]
    bytes_each = each.value + (demand.value_bytes if each.per == "job" else 0)
    return _Store(
        rate * seconds * ENTRIES.get(each.about, 1),
        rate * seconds * bytes_each,
        _restore_seconds(each, rates, kept),
        f"store {each.about}: {count(rate)}/s x {span(seconds)} x {bytes_each:,.1f} B for each "
        f"{each.per}; a restore reads {count(rate * kept.restored[each.per])}",
    )


def _memory(
    stage: str, share: float, disk: float, entries: float, rates: Mapping[str, float]
) -> list[tuple[float, str]]:
    """Parts of what one process needs, in MiB."""
    parts = [(value("resident", MEASURED_AS.get(stage, stage), "process"), "loaded")]
    if stage in STORES:
        most = value("store memory", "RocksDB", "process")
        parts.append((min(most, disk * share / MIB), "RocksDB's cache and buffers"))
        filters = entries * _FILTER_BYTES * share / MIB
        if filters > most / 2:
            parts.append((filters - most / 2, "page cache for its filters"))
    if "jobs" in STORES.get(stage, ()):
        waiting = rates["job"] * _BACKLOG_SECONDS * share
        parts.append((waiting * value("waiting", "jobs", "job") / MIB, "waiting jobs, 1 h"))
    return parts


def _fullest(processes: int, partitions: int, largest_tenant: float) -> str:
    share, held = fullest(processes, partitions, largest_tenant), _held(processes, partitions)
    return (
        f"memory, disk, restore: of the fullest process, {share:.1%} of all: {largest_tenant:g} + "
        f"{1 - largest_tenant:g} x {held} of {partitions} partitions"
    )


def _work(stage: str, needed: float, rates: Mapping[str, float]) -> str:
    terms = " + ".join(
        f"{count(rates[each.per])} x {each.value:g} us ({each.per})"
        for each in _times(stage)
        if rates[each.per]
    )
    return f"work: {terms or '0'} = {needed:.2f} s/s, {HEAD_ROOM:g} planned a process"
