"""What the brokers need: disk of each topic, network, processor time, replicas of partitions.

Bytes of a topic are those of one replica unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sizing.demand import Demand
from sizing.figures import figures, value
from sizing.units import count, size, span
from streams.serde.sizes import CHUNK_BYTES
from streams.topology.model import Topic, Topology
from streams.topology.rights import topics_of

DIRT = 0.2
"""`min.cleanable.dirty.ratio`: this share of a compacted log may be superseded records."""
_CHECK_SECONDS = 300.0
"""`log.retention.check.interval.ms`: how often Kafka looks for segments to delete."""
_MIB = 1024 * 1024
_COPIES = {"jobs": 3}
"""How many records of a topic carry the values of one job, at most."""
_COMMITTING = ("pipeline", "dedup", "dispatcher")


@dataclass(frozen=True, slots=True)
class TopicSize:
    """`written` is bytes a second, `disk` bytes; both of one replica."""

    name: str
    written: float
    disk: float
    formula: str


@dataclass(frozen=True, slots=True)
class Brokers:
    """All brokers together: cores, bytes a second, bytes, replicas of partitions."""

    cores: float
    clients_in: float
    replication_in: float
    clients_out: float
    disk: float
    replicas: int
    formulas: tuple[str, ...]


def topic_sizes(
    topology: Topology,
    demand: Demand,
    rates: Mapping[str, float],
    alive: Mapping[str, float],
) -> tuple[TopicSize, ...]:
    """Every topic that the load writes to; `alive` is for how many seconds each thing is kept."""
    found = []
    for topic in topology.topics.values():
        written = _written(topic.name, demand, rates)
        if written:
            found.append(_kept(topic, written, demand, rates, alive))
    return tuple(found)


def _written(topic: str, demand: Demand, rates: Mapping[str, float]) -> float:
    """Bytes a second that producers add to the segments of a topic."""
    written = sum(
        rates[each.per] * each.value for each in figures("logged", topic) if each.per in rates
    )
    if topic == "payloads":
        chunks = -(-demand.body_bytes // CHUNK_BYTES)
        return written * chunks + rates["delivery in"] * demand.body_bytes
    return written + rates["job"] * demand.value_bytes * _COPIES.get(topic, 0)


def _kept(
    topic: Topic,
    written: float,
    demand: Demand,
    rates: Mapping[str, float],
    alive: Mapping[str, float],
) -> TopicSize:
    if topic.retention_ms is not None:
        held = topic.retention_ms / 1_000 + _open_seconds(topic, written) + _CHECK_SECONDS
        formula = f"{size(written)}/s x {span(held)} until its last segment is deleted"
        return TopicSize(topic.name, written, written * held, formula)
    terms, live = [], 0.0
    for each in figures("kept", topic.name):
        number = rates[each.per] * alive[each.per]
        bytes_each = each.value + (demand.value_bytes if each.per == "job" else 0)
        live += number * bytes_each
        if number:
            terms.append(f"{count(number)} x {bytes_each:,.0f} B of {each.per}")
    tail = written * _open_seconds(topic, written)
    formula = f"({' + '.join(terms) or '0'}) / {1 - DIRT:g} + {size(tail)} not yet compacted"
    return TopicSize(topic.name, written, live / (1 - DIRT) + tail, formula)


def _open_seconds(topic: Topic, written: float) -> float:
    """How long a segment stays open: Kafka deletes and compacts only closed ones, as a whole."""
    most = (64 if topic.retention_ms is None else 256) * _MIB * topic.partitions
    return min(topic.segment_ms / 1_000, most / written)


def brokers(
    topology: Topology,
    demand: Demand,
    rates: Mapping[str, float],
    topics: tuple[TopicSize, ...],
    processes: Mapping[str, int],
) -> Brokers:
    """`processes` are the numbers of processes by stage: those that commit cost the brokers."""
    written = sum(topic.written for topic in topics)
    read = sum(topic.written * readers(topology, topic.name, processes) for topic in topics)
    bodies = (rates["job"] + rates["delivery out"]) * demand.body_bytes
    work = sum(rates[each.per] * each.value for each in figures("processor time", "broker")) / 1e6
    committing = sum(processes.get(stage, 0) for stage in _COMMITTING)
    commits = value("commits", "broker", "committing process")
    copies = demand.replication - 1
    replicas = sum(topic.partitions for topic in topology.topics.values()) * demand.replication
    return Brokers(
        work * demand.replication + commits * committing,
        written,
        written * copies,
        read + bodies,
        sum(topic.disk for topic in topics) * demand.replication,
        replicas,
        (
            f"cores: {work:.2f} for the records x {demand.replication} replicas + {commits:g} x "
            f"{committing} processes that commit",
            f"between brokers: {size(written)}/s x {copies} more replicas",
            f"out: each topic x its readers, + {size(bodies)}/s of bodies for workers and delivery",
        ),
    )


def readers(topology: Topology, topic: str, processes: Mapping[str, int]) -> int:
    """How many stages read the whole of a topic; each operator process does by itself."""
    running = {*processes, *(topology.fused if "pipeline" in processes else ())}
    reading = sum(topic in s.reads for s in topology.stages.values() if s.name in running)
    operators = processes.get("operator", 0) * (topic in operator_reads(topology))
    return reading + operators


def operator_reads(topology: Topology) -> set[str]:
    """The topics of which an operator process reads every record: all that it may but bodies."""
    return topics_of("operator", topology, "Read") - {"payloads"}
