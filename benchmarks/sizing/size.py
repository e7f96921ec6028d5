"""From a demand to partitions, processes, memory and disk; arithmetic on the measured figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sizing.brokers import Brokers, TopicSize, brokers, topic_sizes
from sizing.demand import Demand, check, pools, rates
from sizing.figures import FIGURES, value
from sizing.stages import (
    HEAD_ROOM,
    Kept,
    StageSize,
    busy,
    operator_size,
    restore_seconds,
    sharing,
    stage_size,
    whole,
    worker_size,
)
from streams.errors import ConfigError
from streams.topology.model import Topology
from streams.topology.validate import validate

GROWTH = 2
"""Partitions are for so many times the processes of now, because they can never be added."""
_STEPS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048)
"""Numbers of partitions that many numbers of processes divide."""
_DAY = 86_400.0
FUSED = ("pipeline", "delivery")
APART = ("dedup", "scheduler", "dispatcher", "delivery")
"""Stages whose processes share the partitions, in the two layouts."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a demand needs. `topology` has the partitions of this size."""

    demand: Demand
    rates: Mapping[str, float]
    topology: Topology
    stages: tuple[StageSize, ...]
    topics: tuple[TopicSize, ...]
    brokers: Brokers
    live: Mapping[str, float]
    """How many keys of each compacted topic have a value."""


def with_window(topology: Topology, window_days: float | None) -> Topology:
    """The topology with another window.

    Raises:
        ConfigError: the window is none, or some retention is too short for it.
    """
    if window_days is None:
        return topology
    if not 0 < window_days <= 365:
        raise ConfigError(f"--window-days {window_days:g}: give a number of days, at most 365")
    changed = replace(topology, window_ms=round(window_days * _DAY * 1_000))
    if problems := validate(changed):
        told = "\n".join(problem.what for problem in problems)
        raise ConfigError(f"--window-days {window_days:g} does not fit the topology:\n{told}")
    return changed


def size(demand: Demand, topology: Topology, stages: Sequence[str] = FUSED) -> Size:
    """Compute everything; `stages` are those that share the partitions.

    Raises:
        ConfigError: the demand has numbers that no pipeline can have.
    """
    check(demand)
    found, kept = rates(demand), _kept(topology)
    needed = {name: _needed(name, found, kept, demand) for name in stages}
    partitions = max(topology.partitions, partitions_for(math.ceil(max(needed.values()))))
    least = math.ceil(partitions / value("most", "dedup", "partitions"))
    ingress = math.ceil(sharing(busy("ingress", found), HEAD_ROOM, 0.0))
    processes = {"ingress": ingress} | {
        name: max(whole(number, partitions), least) for name, number in needed.items()
    }
    workers = {pool: worker_size(pool, demand.effects) for pool in pools(demand) if pool.jobs}
    sized = _partitioned(topology, partitions)
    sizes = [stage_size(name, n, partitions, found, kept, demand) for name, n in processes.items()]
    operator = operator_size(found, _rows_kept(sized, demand.listed_hours), demand)
    topics = topic_sizes(sized, demand, found, kept.alive)
    asked = brokers(sized, demand, found, topics, {**processes, "operator": 1})
    together = (*sizes, *workers.values(), operator)
    return Size(demand, found, sized, together, topics, asked, _live(found, kept))


def _needed(stage: str, rates: Mapping[str, float], kept: Kept, demand: Demand) -> float:
    """Processes for the load, and to restore in time what one of them has lost."""
    largest = demand.largest_tenant
    load = sharing(busy(stage, rates), HEAD_ROOM, largest)
    lost = restore_seconds(stage, rates, kept)
    return max(load, sharing(lost, demand.restore_minutes * 60, largest))


def partitions_for(processes: int, least: int = 4) -> int:
    """The number of partitions for twice the processes, in a number that divides well."""
    wanted = max(least, GROWTH * processes)
    return next((step for step in _STEPS if step >= wanted), math.ceil(wanted / 256) * 256)


def _partitioned(topology: Topology, partitions: int) -> Topology:
    """The topology with another number of partitions."""
    topics = {name: replace(t, partitions=partitions) for name, t in topology.topics.items()}
    return replace(topology, partitions=partitions, topics=topics)


def _kept(topology: Topology) -> Kept:
    """How long each kind of thing is in a store, and how far back a lost store is read.

    A window store drops whole segments of one window, so it holds up to two windows. Its changelog
    is read from its beginning; a compacted one has a quarter more records than things at most.
    """
    window, finished = topology.window_ms / 1_000, topology.finished_jobs_ms / 1_000
    alive = {
        "event": 2 * window,
        "redelivery": 2 * window,
        "event without a job": window + _DAY,
        "job": finished,
        "effect": finished,
        "delivery out": topology.deliveries_ms / 1_000,
    }
    seen = topology.topics["dedup.seen.changelog"]
    logged = ((seen.retention_ms or 0) + seen.segment_ms) / 1_000
    restored = {per: seconds * 1.25 for per, seconds in alive.items()}
    return Kept(alive, {**restored, "event": logged, "redelivery": logged})


def _rows_kept(topology: Topology, listed_hours: float) -> dict[str, float]:
    """For how many seconds the operator keeps the rows of each table."""
    finished = topology.finished_jobs_ms / 1_000
    retention = {name: (t.retention_ms or 0) / 1_000 for name, t in topology.topics.items()}
    return {
        "events": min(listed_hours * 3_600, retention["events"]),
        "jobs": finished,
        "effects": finished,
        "duplicates": retention["duplicates"],
        "deliveries": topology.deliveries_ms / 1_000,
        "attempts": retention["deliveries.attempts"],
    }


def _live(rates: Mapping[str, float], kept: Kept) -> dict[str, float]:
    live: dict[str, float] = {}
    for each in FIGURES:
        if each.what == "kept":
            number = rates[each.per] * kept.alive[each.per]
            live[each.about] = live.get(each.about, 0.0) + number
    return live
