"""The least rights on Kafka that each process's user needs, derived from the topology.

The topology declares what a stage reads, writes and keeps. The tables here add what the runtime
does for every stage, and what the processes do that the topology does not declare as stages.

A right is one operation of Kafka's authorizer on one resource. Those that another one implies are
left out: `Describe` comes with `Read`, `Write`, `Alter` and `Delete`, `DescribeConfigs` with
`AlterConfigs` (KIP-11). `IdempotentWrite` comes with `Write` on any topic (KIP-679, Kafka 2.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from streams.topology.model import FUSED, LayoutName, StageDeclaration, Topology

Resource = Literal["topic", "group", "transactional_id"]
Operation = Literal[
    "Read", "Write", "Describe", "DescribeConfigs", "Create", "AlterConfigs", "Delete"
]

Held = Mapping[tuple[Resource, str], Collection[str]]
"""A user's operations by resource and full name, in Kafka's words, such as `DESCRIBE_CONFIGS`."""

TOPOLOGY = "topology"
"""The user of `tidegate topology apply` and `tidegate topology layout`."""
_COUNTS = "analytics"
"""The declared stage that has a runtime of its own, and writes nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation on one resource, by its full name.

    A `prefixed` one holds for every name that begins so (KIP-290).
    """

    resource: Resource
    name: str
    operation: Operation
    prefixed: bool = False

    def __str__(self) -> str:
        more = "..." if self.prefixed else ""
        return f"{self.operation} on {self.resource.replace('_', ' ')} {self.name}{more}"


@dataclass(frozen=True, slots=True)
class User:
    """A user of Kafka by the process that it is for, and its rights in order."""

    process: str
    rights: tuple[Right, ...]


@dataclass(frozen=True, slots=True)
class _Use:
    """What a process does, by logical names.

    It belongs to the groups of `joins`, and asks for positions or members of those of `asks`. A
    transactional id that ends in "-" goes on with the instance's name.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    sees: frozenset[str] = frozenset()
    reads_settings: frozenset[str] = frozenset()
    creates: frozenset[str] = frozenset()
    joins: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    writes_as: frozenset[str] = frozenset()

    def __or__(self, other: _Use) -> _Use:
        mine = ((name, getattr(self, name)) for name in self.__slots__)
        return _Use(**{name: value | getattr(other, name) for name, value in mine})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OF_EVERY_STAGE = _Use(writes=_names("clock dlq"))

_BESIDES = {
    "delivery": _Use(reads=_names("payloads")),
    "dispatcher": _Use(
        reads=_names("payloads"), writes=_names("jobs.progress jobs.live jobs.types tenants")
    ),
}
"""What a stage does beside what the topology declares. Delivery sends bodies; the dispatcher gives
them to workers, and writes what their runs say, and when their tokens were used."""

_INGRESS = _Use(
    reads=_names("tenants ingress.rates jobs.backlog"),
    writes=_names("payloads events.received quarantine rejections tenants ingress.rates dlq"),
    asks=_names("ingress"),
)
_OPERATOR = _Use(
    reads=_names(
        "events jobs jobs.held jobs.backlog jobs.progress jobs.live jobs.types ledger"
        " dispatcher.checkpoints.changelog limits.grants"
        " dlq quarantine approvals schedules workflows rejections duplicates deliveries"
        " deliveries.attempts deliveries.endpoints tenants payloads replays bulk audit"
    ),
    writes=_names(
        "payloads events.received jobs.commands tenants quarantine dlq replays bulk"
        " deliveries.commands audit"
    ),
    joins=_names("replays bulk"),
    asks=_names("operator events-reader"),
    writes_as=_names("operator.settings operator-"),
)


def users(topology: Topology, prefix: str = "", layout: LayoutName | None = None) -> list[User]:
    """The users of a layout's processes, or of both; `prefix` is that of topics and groups."""
    left_out = {"fused": set(topology.fused), "apart": {FUSED}, None: set[str]()}[layout]
    return [
        User(name, rights_of(name, topology, prefix))
        for name in _uses(topology)
        if name not in left_out
    ]


def topics_of(process: str, topology: Topology, *operations: Operation) -> set[str]:
    """The topics on which a process needs one of these operations, by logical name."""
    return {
        right.name
        for right in rights_of(process, topology)
        if right.resource == "topic" and right.operation in operations
    }


def lacking(rights: Iterable[Right], held: Held) -> list[Right]:
    """Those of the rights that the user lacks; on a resource that `held` has not, none is."""
    return [
        right
        for right in rights
        if (right.resource, right.name) in held
        and right.operation.upper()
        not in {each.replace("_", "") for each in held[right.resource, right.name]}
    ]


def rights_of(process: str, topology: Topology, prefix: str = "") -> tuple[Right, ...]:
    """The rights of one process's user; none for a process that the topology does not know."""
    use = _uses(topology).get(process, _Use())
    return tuple(sorted(_rights(use, prefix)))


def _uses(topology: Topology) -> dict[str, _Use]:
    stages = {name: _stage(topology, each) for name, each in topology.stages.items()}
    fused = {FUSED: _fused(topology)} if topology.fused else {}
    return {
        TOPOLOGY: _topology(topology),
        "ingress": _INGRESS,
        **fused,
        **stages,
        "operator": _OPERATOR | _of_replays(topology),
    }


def _stage(topology: Topology, stage: StageDeclaration) -> _Use:
    if stage.name == _COUNTS:
        return _Use(reads=frozenset(stage.reads), joins=_names(stage.name))
    # It refuses to start while the fused stage runs in its place, or has positions of its inputs,
    # perhaps from when the topology fused it.
    fused = {topic for name in topology.fused for topic in topology.stages[name].reads}
    asks = stage.name in topology.fused or set(stage.reads) - fused
    asked = frozenset({FUSED} if asks else ())
    own = _Use(joins=_names(stage.name), writes_as=_names(f"{stage.name}-"), asks=asked)
    return own | _flow(topology, stage)


def _flow(topology: Topology, stage: StageDeclaration) -> _Use:
    """What a stage does on topics, in whichever process it runs."""
    inputs = frozenset(stage.reads)
    changelogs = frozenset(store.changelog for store in stage.stores)
    outputs = changelogs.union(topology.outputs(stage))
    declared = _Use(inputs | changelogs, outputs, reads_settings=inputs | outputs | _names("dlq"))
    return declared | _OF_EVERY_STAGE | _BESIDES.get(stage.name, _Use())


def _fused(topology: Topology) -> _Use:
    own = _Use(joins=_names(FUSED), writes_as=_names(f"{FUSED}-"), asks=frozenset(topology.fused))
    return reduce(_Use.__or__, (_flow(topology, topology.stages[n]) for n in topology.fused), own)


def _of_replays(topology: Topology) -> _Use:
    """A dead letter goes back to its stage's own input; the replicas of topics are counted."""
    inputs = frozenset(filter(None, map(topology.letter_input, topology.stages)))
    return _Use(writes=inputs, sees=frozenset(topology.topics))


def _topology(topology: Topology) -> _Use:
    """`apply` creates topics and changes settings; `layout` moves the positions of groups."""
    topics = frozenset(topology.topics)
    groups = frozenset({FUSED, *topology.fused} if topology.fused else ())
    moved = {topic for name in topology.fused for topic in topology.stages[name].reads}
    return _Use(reads=frozenset(moved), sees=topics, creates=topics, joins=groups, deletes=groups)


def _rights(use: _Use, prefix: str) -> Iterator[Right]:
    seen = use.sees - use.reads - use.writes
    of_topics: tuple[tuple[Operation, frozenset[str]], ...] = (
        ("Read", use.reads),
        ("Write", use.writes),
        ("Describe", seen),
        ("DescribeConfigs", use.reads_settings - use.creates),
        ("Create", use.creates),
        ("AlterConfigs", use.creates),
    )
    of_groups: tuple[tuple[Operation, frozenset[str]], ...] = (
        ("Read", use.joins),
        ("Describe", use.asks - use.joins),
        ("Delete", use.deletes),
    )
    for operation, topics in of_topics:
        yield from (Right("topic", prefix + name, operation) for name in topics)
    for operation, groups in of_groups:
        yield from (Right("group", prefix + name, operation) for name in groups)
    for name in use.writes_as:
        yield Right("transactional_id", prefix + name, "Write", name.endswith("-"))
