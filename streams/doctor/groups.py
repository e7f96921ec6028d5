"""Judges consumer groups: which stages run, in which layout, and whether they move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from streams.doctor.commands import Commands
from streams.doctor.finding import Check, Finding, counted, named
from streams.doctor.group_view import APART_SECONDS, Ends, GroupSeen, GroupsSeen
from streams.kafka.offsets import Place
from streams.topology.model import FUSED, Topology

LAYOUT = Check("stages", "layout")
BLOCKED = Check("stages", "transactions")

_MARKERS = 10
"""Offsets after a position that may be marks of ended transactions, and no records to read."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A group, the topics that it reads, and the words of the command that starts its process.

    The flow waits for `needed` ones, and the others may be left out.
    """

    name: str
    reads: tuple[str, ...]
    start: tuple[str, ...]
    needed: bool


def expected(topology: Topology, layout: str) -> Iterator[Expected]:
    """The groups of one layout; workers join none."""
    fused = topology.fused if layout == "fused" else ()
    if fused:
        reads = tuple(dict.fromkeys(t for name in fused for t in topology.stages[name].reads))
        yield Expected(FUSED, reads, (FUSED,), True)
    for stage in topology.stages.values():
        if stage.name not in fused:
            needed = stage.name in topology.fused
            yield Expected(stage.name, stage.reads, (stage.name,), needed)


def names(topology: Topology) -> list[str]:
    """The groups of both layouts."""
    both = (each.name for layout in ("fused", "apart") for each in expected(topology, layout))
    return list(dict.fromkeys(both))


def stages(
    topology: Topology, seen: GroupsSeen, prefix: str, commands: Commands
) -> Iterator[Finding]:
    """The layout that runs, then each of its groups."""
    layout = "apart"
    if topology.fused:
        layout = _layout(topology, seen)
        yield from _both(topology, seen, commands)
    for each in expected(topology, layout):
        check = Check("stages", each.name)
        if each.name in seen.hidden:
            right = f"Describe on the group {prefix}{each.name}"
            yield check.skipped(f"the user on Kafka lacks the right {right}", "grant it")
        else:
            yield _group(check, each, seen, commands)


def _layout(topology: Topology, seen: GroupsSeen) -> str:
    """What runs, else what has positions, else the one that most installations have."""
    fused, apart = _of(seen, [FUSED]), _of(seen, topology.fused)
    for have in ("members", "positions"):
        for layout, side in (("fused", fused), ("apart", apart)):
            if any(getattr(group, have) for group in side):
                return layout
    return "fused"


def _of(seen: GroupsSeen, groups: Iterable[str]) -> list[GroupSeen]:
    return [seen.groups[name] for name in groups if name in seen.groups]


def _both(topology: Topology, seen: GroupsSeen, commands: Commands) -> Iterator[Finding]:
    move = {to: commands.on_kafka("topology", "layout", to) for to in ("fused", "apart")}
    fused, apart = _of(seen, [FUSED]), _of(seen, topology.fused)
    run, ran = (
        [[e.name for e in side if getattr(e, have)] for side in (fused, apart)]
        for have in ("members", "positions")
    )
    if all(run):
        yield LAYOUT.fail(
            f"{FUSED} runs, and so do {named(run[1])}, which do the same work in the other layout",
            f"stop one of them, then run `{move['fused']}` to go on with {FUSED}, or "
            f"`{move['apart']}` with the others",
        )
    elif all(ran):
        kept = [move["fused"]] * (not run[1]) + [move["apart"]] * (not run[0])
        yield LAYOUT.fail(
            f"{FUSED} and {named(ran[1])} both have positions, so neither layout can start",
            f"stop the stages, then run {' or '.join(f'`{each}`' for each in kept)}",
        )
    elif hidden := seen.hidden & {FUSED, *topology.fused}:
        yield LAYOUT.skipped(f"this user may not describe {named(hidden)}")
    else:
        yield LAYOUT.ok("no two layouts run or have positions at once")


def _group(check: Check, each: Expected, seen: GroupsSeen, commands: Commands) -> Finding:
    group = seen.groups.get(each.name, GroupSeen(each.name))
    waiting = _behind(each, group.positions, seen.after)
    if group.members:
        return _alive(check, each, group, seen, waiting)
    if not group.positions and not each.needed:
        return check.skipped("it has never run here", commands.process(*each.start))
    behind = f", and {counted(waiting, 'record')} at most wait for it" if waiting else ""
    return check.warn(f"no process of {each.name} runs{behind}", commands.process(*each.start))


def _alive(
    check: Check, each: Expected, group: GroupSeen, seen: GroupsSeen, waiting: int
) -> Finding:
    processes = f"{counted(len(group.members), 'process', 'processes')} ({named(group.members)})"
    earlier, left = (_behind(each, at, seen.before) for at in (group.before, group.positions))
    if stuck := _stuck(each, group, seen):
        return check.warn(
            f"{processes}, but no position moved within {APART_SECONDS:g} s in "
            f"{named(f'{topic}-{partition}' for topic, partition in stuck)}, where records wait",
            "look at the log of its processes; see docs/operating.md, First look",
        )
    if waiting > earlier and left > _MARKERS * len(each.reads):
        return check.warn(
            f"{processes}, but what waits grows: {waiting} records after {earlier}",
            "start more processes, or see docs/performance.md",
        )
    return check.ok(processes)


def _behind(each: Expected, at: Mapping[Place, int], ends: Ends) -> int:
    """Offsets between the positions of a group and the ends of what it reads."""
    return sum(max(0, _left(place, at, ends)) for place in ends.last if place[0] in each.reads)


def _left(place: Place, at: Mapping[Place, int], ends: Ends) -> int:
    """From the position, or from the first record that the retention has left."""
    return ends.stable[place] - max(at.get(place, 0), ends.first[place])


def _stuck(each: Expected, group: GroupSeen, seen: GroupsSeen) -> list[Place]:
    """Inputs whose position did not move, with more behind it than marks of transactions.

    Count what was there at the first look: what came since may wait for a second (`positions`).
    """
    return [
        place
        for place in seen.after.last
        if place[0] in each.reads
        and place in group.positions
        and group.positions[place] == group.before.get(place)
        and _left(place, group.positions, seen.before) > _MARKERS
    ]


def transactions(seen: GroupsSeen, bootstrap: str, prefix: str) -> Iterator[Finding]:
    """Inputs that stood behind an open transaction at both looks."""
    held = {
        place: stable
        for place, stable in seen.after.stable.items()
        if stable < seen.after.last[place]
        and seen.before.stable.get(place) == stable
        and stable < seen.before.last[place]
    }
    for (topic, partition), offset in sorted(held.items()):
        old = (topic, partition) in seen.old
        lasted = "more than a minute" if old else f"{APART_SECONDS:g} s at least"
        judged = BLOCKED.fail if old else BLOCKED.warn
        yield judged(
            f"readers of {topic}-{partition} wait at offset {offset}, where a transaction has been "
            f"open for {lasted}",
            f"if it stays: kafka-transactions.sh --bootstrap-server {bootstrap} find-hanging "
            f"--max-transaction-timeout 0 --topic {prefix}{topic}; "
            "see docs/troubleshooting.md, An input is blocked",
        )
    if not held:
        yield BLOCKED.ok(f"no open transaction holds up {len(seen.after.last)} inputs")
