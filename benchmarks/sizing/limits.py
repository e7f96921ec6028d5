"""The limits of a size that more processes do not move, and the remedy for each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sizing.brokers import DIRT
from sizing.figures import value
from sizing.size import Size
from sizing.stages import ENTRIES, HEAD_ROOM, MIB, STORES, fullest
from sizing.units import count, size, span
from streams.topology.model import Topology

_MEASURED_KEYS = 20_000_000
"""The most keys in a store of one process with which dedup was measured."""
_REPLICAS_A_BROKER = 4_000
"""A guideline of Kafka's operators, not measured here."""
_CLEANER_BUFFER = 128 * MIB
"""`log.cleaner.dedupe.buffer.size` by default: of all cleaner threads, on the broker's heap."""
_CLEANER_MOST = 2_048 * MIB
"""Kafka gives a cleaner thread no more, whatever the setting says (LogCleaner)."""
_CLEANER_BYTES = 24 / 0.9
"""Of that buffer for each key: 24 bytes, and a tenth stays free."""
_ENTRIES = {"dispatcher.parts.changelog": ENTRIES["parts"], "jobs": 1, "ledger": 1, "deliveries": 1}
_ROOM = 1_000_000_000_000
_MANY_PROCESSES = 200
_UNMEASURED_WORKERS = 1_000


def warnings(sized: Size, declared: Topology) -> tuple[str, ...]:
    """One sentence or two for each limit, most important first."""
    found = (_tenant, _operator, _stores, _partitions, _brokers, _pools, _unmeasured)
    return tuple(text for limit in found for text in limit(sized, declared))


def _tenant(sized: Size, declared: Topology) -> Iterator[str]:
    share = sized.demand.largest_tenant
    for stage in sized.stages:
        alone = stage.busy * share
        if stage.name in STORES and alone > HEAD_ROOM:
            yield (
                f"one tenant exceeds a partition: the largest ({share:.0%}) needs {alone:.2f} of a "
                f"{stage.name} process, and {HEAD_ROOM:g} are planned. It lives in one partition, "
                "which no further process or partition helps: give its sources to several tenants"
            )
        elif stage.name in STORES and alone > HEAD_ROOM * 3 / 4:
            yield (
                f"one tenant nearly fills a partition: the largest ({share:.0%}) needs {alone:.2f} "
                f"of a {stage.name} process, and {HEAD_ROOM:g} are planned, so its partition needs "
                "a process of its own"
            )


def _operator(sized: Size, declared: Topology) -> Iterator[str]:
    (operator,) = (stage for stage in sized.stages if stage.name == "operator")
    read, most = sized.rates["event"], value("rate", "operator", "event")
    pipelines = math.ceil(max(operator.busy / HEAD_ROOM, read / most))
    if operator.busy > HEAD_ROOM or read > most:
        yield (
            f"the operator cannot follow: its one thread needs {operator.busy:.2f} s a second, and "
            f"it reads about {count(most)} events/s. Every operator process reads everything: "
            f"divide the tenants among {pipelines:,} pipelines, each with an operator of its own"
        )
    if operator.disk > _ROOM / 10:
        yield (
            f"the operator's file has {size(operator.disk)}, on one disk, and is rebuilt in "
            f"{span(operator.restore_seconds)}: shorten retention.finished_jobs_days and "
            "the setting events_listed_hours, keep its data directory on a volume, or run several "
            "pipelines"
        )


def _stores(sized: Size, declared: Topology) -> Iterator[str]:
    for stage in sized.stages:
        if stage.name in STORES and stage.restore_seconds > sized.demand.restore_minutes * 60:
            yield (
                f"{stage.name}: a process that lost its disk takes {span(stage.restore_seconds)}, "
                f"more than --restore-minutes {sized.demand.restore_minutes:g}: the largest tenant "
                "is in one partition. Keep volumes, and shorten what is kept"
            )
        if stage.name in ("pipeline", "dedup") and stage.keys > _MEASURED_KEYS:
            yield (
                f"{stage.name}: {count(stage.keys)} keys in the largest store of a process, and "
                f"{count(_MEASURED_KEYS)} were measured at most: beyond, lookups wait for the disk "
                "unless the page cache holds the filters; measure it, or run more processes"
            )
    name, dirty = max(
        (
            (name, sized.live.get(name, 0.0) * entries * DIRT / (1 - DIRT))
            for name, entries in _ENTRIES.items()
        ),
        key=lambda found: found[1],
    )
    partitions = sized.topology.partitions
    share = fullest(partitions, partitions, sized.demand.largest_tenant)
    yield from _cleaner(name, dirty * share * _CLEANER_BYTES)


def _cleaner(topic: str, needed: float) -> Iterator[str]:
    what = f"the map of the new keys in the fullest partition of {topic}"
    if needed > _CLEANER_MOST:
        times = math.ceil(needed / _CLEANER_MOST)
        yield (
            f"{what} takes {size(needed)}, and Kafka gives a cleaner thread 2 GiB at most, so each "
            f"cleaning reads and rewrites that partition {times} times: more partitions, or a "
            "shorter retention, make it smaller"
        )
    elif needed > _CLEANER_BUFFER:
        yield (
            f"set the brokers' log.cleaner.dedupe.buffer.size (128 MiB) to {size(needed)} or more "
            f"for each cleaner thread, and their heap higher by as much: so much takes {what}. "
            "With less, each cleaning reads and rewrites that partition several times"
        )


def _partitions(sized: Size, declared: Topology) -> Iterator[str]:
    partitions = sized.topology.partitions
    if declared.partitions < partitions:
        yield (
            f"the topology declares {declared.partitions} partitions, and this load wants "
            f"{partitions}: set `partitions` before the first event, because a later change leaves "
            "keys and jobs behind"
        )


def _brokers(sized: Size, declared: Topology) -> Iterator[str]:
    if sized.brokers.replicas > _REPLICAS_A_BROKER * 3:
        brokers = -(-sized.brokers.replicas // _REPLICAS_A_BROKER)
        yield (
            f"{sized.brokers.replicas:,} replicas of partitions: with {_REPLICAS_A_BROKER:,} a "
            f"broker, a guideline that was not measured here, that takes {brokers} brokers"
        )
    if sized.demand.replication < 3:
        yield (
            f"replication {sized.demand.replication}: a lost disk loses answered events, and "
            "`topology apply` refuses it without --allow-unsafe"
        )


def _pools(sized: Size, declared: Topology) -> Iterator[str]:
    for pool in sized.demand.pools:
        if pool.jobs and pool.name not in declared.pools:
            yield f"pool {pool.name} is not declared: add it under `pools` of the topology"


def _unmeasured(sized: Size, declared: Topology) -> Iterator[str]:
    if sized.demand.jobs > sized.demand.events:
        yield (
            f"{count(sized.demand.jobs - sized.demand.events)} jobs/s come through the operator's "
            "API, which was not measured: keep their share small, or send them as events"
        )
    workers = sum(s.processes for s in sized.stages if s.name.startswith("worker"))
    if workers > _UNMEASURED_WORKERS:
        yield f"{workers:,} workers: heartbeats were measured with {_UNMEASURED_WORKERS:,} at most"
    processes = sum(stage.processes for stage in sized.stages) - workers
    if processes > _MANY_PROCESSES:
        yield (
            f"{processes:,} processes in a few consumer groups: rebalances of so many were not "
            "measured; divide the tenants among several pipelines, each on its own cluster"
        )
