"""Stories: how a world is set up, what is done to it, and how both are drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from simulation.chance import Dice
from simulation.flow_control import CONTROLLED
from simulation.handlers import APPROVED, SCRIPTS
from simulation.requests import LARGE
from simulation.tree_jobs import TREE
from simulation.wiring import HALT, TENANTS
from simulation.world import STAGES, STORES, World

POINTS = (
    "received",
    "positions_sent",
    "produced",
    "before_commit",
    "after_commit",
    "between_writes",
    "after_write",
)
MOVE = "move"
_GAPS = (0, 0, 0, 1, 1, 2, 3, 5, 8, 20)
_TYPES = tuple(SCRIPTS)
_TYPE_WEIGHTS = (2, 4, 4, 3, 4, 3, 2, 0.5, 0.3, 1, 3, 2, 3, 2, 2, 2, 3, 3, 3, 3, 2, 2, 4, 0)
Args = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: after so many seconds, this is done to the world."""

    gap: float
    name: str
    args: Args


@dataclass(frozen=True, slots=True)
class Story:
    seed: int
    setup: dict[str, Any]
    ops: tuple[Op, ...]
    types: tuple[str, ...] = ()
    """The job types that it was told to have."""


@dataclass(frozen=True, slots=True)
class Die:
    """What operations are drawn with; each story speaks of few tenants, keys and types.

    So it comes back to the same ids, which is where most faults are.
    """

    r: Random
    tenants: tuple[str, ...]
    keys: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, r: Random) -> Die:
        types = r.choices(_TYPES, _TYPE_WEIGHTS, k=r.choice((1, 2, 4)))
        keys = ("0", "1", "2")[: r.choice((1, 2, 3))]
        return cls(r, TENANTS[: r.choice((1, 2, 3))], keys, tuple(types))

    def ask(self) -> Args:
        return self.r.choice(self.tenants), self.r.choice(self.keys), self.r.choice(self.types)

    def one(self, *options: Any) -> Any:
        return self.r.choice(options)

    def below(self, end: int) -> int:
        return self.r.randrange(end)

    def worker(self) -> Args:
        return (self.below(3),)


@dataclass(frozen=True, slots=True)
class Kind:
    """How often an operation is drawn, its arguments, and what it does."""

    weight: float
    draw: Callable[[Die], Args]
    act: Callable[..., None]


def _which(world: World, index: int) -> str:
    names = list(world.workers)
    return names[index % len(names)]


KINDS: dict[str, Kind] = {
    # event: tenant, key, type. The same three again are a redelivery.
    "deliver": Kind(14, Die.ask, lambda w, *a: w.desk.deliver(*a)),
    # tenant, key, type: an event that such a job waits for
    "answer": Kind(6, Die.ask, lambda w, *a: w.desk.answer(*a)),
    # tenant, key, type, delay in seconds
    "submit": Kind(
        6, lambda d: (*d.ask(), d.one(0, 0, 7, 60, 90_000)), lambda w, *a: w.desk.submit(*a)
    ),
    # the same with a large input
    "large": Kind(0.7, Die.ask, lambda w, *a: w.desk.submit(*a, size=LARGE + 10_000)),
    # two tenants want much at once: type
    "flood": Kind(0.7, lambda d: (d.one("note", "mail", "crm"),), lambda w, t: w.flood(t)),
    # the so-manieth job asked for
    "cancel": Kind(3, lambda d: (d.below(6),), lambda w, i: w.desk.cancel(i)),
    # the so-manieth replayable job, idempotency key, in a fresh scope, insisting
    "replay": Kind(
        4,
        lambda d: (d.below(4), d.below(3), d.one(False, False, True), d.one(False, True)),
        lambda w, i, k, f, a: w.desk.replay(i, k, fresh=f, again=a),
    ),
    # the so-manieth root of a tree, or job below one
    "fell": Kind(2, lambda d: (d.below(3),), lambda w, i: w.people.fell(i)),
    "prune": Kind(2, lambda d: (d.below(8),), lambda w, i: w.people.prune(i)),
    # the so-manieth job of a tree that can be replayed, idempotency key, in a fresh scope
    "regrow": Kind(
        6,
        lambda d: (d.below(3), d.below(3), d.one(False, False, False, True)),
        lambda w, i, k, f: w.people.regrow(i, k, fresh=f),
    ),
    # the so-manieth job in review
    "settle": Kind(3, lambda d: (d.below(3),), lambda w, i: w.people.settle(i)),
    # the so-manieth job whose code diverged, and what becomes of the step
    "settle_steps": Kind(
        2,
        lambda d: (d.below(3), d.one("keep", "drop", "again")),
        lambda w, *a: w.people.settle_steps(*a),
    ),
    # the so-manieth approval, what, who, how (`People.decide`)
    "decide": Kind(
        5,
        lambda d: (
            d.below(4),
            d.one("approve", "approve", "edit", "reject"),
            d.one("ann", "bob", "ops"),
            d.one("", "", "", "twice", "foreign", "cancel", "late"),
        ),
        lambda w, *a: w.people.decide(*a),
    ),
    # tenant, key: some events whose jobs one event may cancel
    "herd": Kind(2, lambda d: d.ask()[:2], lambda w, *a: w.desk.herd(*a)),
    # tenant, key, type, number: events of one subject
    "burst": Kind(3, lambda d: (*d.ask(), d.one(2, 3, 6)), lambda w, *a: w.desk.burst(*a)),
    # tenant, key: an event that cancels the jobs of earlier ones; whether a restart follows
    "halt": Kind(2, lambda d: (*d.ask()[:2], d.one(False, True)), lambda w, *a: w.halt(*a)),
    # worker, version of its handlers
    "release": Kind(
        2, lambda d: (d.below(3), d.below(5)), lambda w, i, v: w.release(_which(w, i), v)
    ),
    # tenant, key, type, its times, what is missed, what overlaps
    "schedule": Kind(
        2,
        lambda d: (*d.ask(), d.below(4), d.below(3), d.below(4)),
        lambda w, *a: w.schedules.set(*a),
    ),
    # the so-manieth schedule
    "pause": Kind(
        0.7,
        lambda d: (d.below(3), d.one(True, False)),
        lambda w, i, p: w.schedules.pause(i, paused=p),
    ),
    "unschedule": Kind(0.5, lambda d: (d.below(3),), lambda w, i: w.schedules.delete(i)),
    # the so-manieth event
    "reroute": Kind(1, lambda d: (d.below(6),), lambda w, i: w.desk.reroute(i)),
    "kill": Kind(3, Die.worker, lambda w, i: w.kill_worker(_which(w, i))),
    "stop": Kind(2, Die.worker, lambda w, i: w.stop_worker(_which(w, i))),
    # worker, seconds
    "cut": Kind(
        2, lambda d: (d.below(3), d.one(4, 12, 40)), lambda w, i, s: w.cut(_which(w, i), s)
    ),
    "lag": Kind(2, lambda d: (d.below(3), d.one(3, 9, 28)), lambda w, i, s: w.lag(_which(w, i), s)),
    # worker, the kind of command, for how many seconds it reaches nobody after that
    "repeat": Kind(
        1.5,
        lambda d: (d.below(3), d.one("", "ended"), d.one(0, 4, 9)),
        lambda w, i, k, s: w.repeat_next(_which(w, i), k, s),
    ),
    "mute": Kind(
        1.5, lambda d: (d.below(3), d.one(3, 9, 28)), lambda w, i, s: w.mute(_which(w, i), s)
    ),
    "trickle": Kind(
        1, lambda d: (d.below(3), d.one(4, 12, 40)), lambda w, i, s: w.trickle(_which(w, i), s)
    ),
    # worker, whether its owner knows that the connection broke
    "snap": Kind(
        3, lambda d: (d.below(3), d.one(True, False)), lambda w, i, k: w.snap(_which(w, i), k)
    ),
    # seconds for which the thread of the dispatcher stands still, and not its server
    "stall": Kind(1.5, lambda d: (d.one(2, 10, 33),), lambda w, n: w.stall("dispatcher", n)),
    # seconds for which a dispatcher without the broker outlives the start of its heir
    "usurp": Kind(2, lambda d: (d.one(3, 12, 40),), lambda w, n: w.usurp(n)),
    # worker, hours by which the clock of its next boot is behind
    "reboot_behind": Kind(
        0.7, lambda d: (d.below(3), d.one(1, 12)), lambda w, i, h: w.reboot_behind(_which(w, i), h)
    ),
    "deploy": Kind(0.7, Die.worker, lambda w, i: w.deploy(_which(w, i), "late")),
    # stage, point of a commit, the so-manieth time that it is passed
    "crash": Kind(
        6,
        lambda d: (d.one(*STAGES, "dispatcher"), d.one(*POINTS), d.one(1, 1, 2)),
        lambda w, *a: w.crash(*a),
    ),
    # stage, how many of its next transactions are aborted
    "abort": Kind(
        2,
        lambda d: (d.one("dispatcher", *STAGES), d.one(1, 1, 2)),
        lambda w, *a: w.cluster.abort(*a),
    ),
    "freeze": Kind(2, lambda d: (d.one(*STAGES), d.one(2, 10, 33)), lambda w, s, n: w.freeze(s, n)),
    # stage, store, how: empty or as photographed
    "lose": Kind(
        2, lambda d: (*d.one(*STORES), d.one("lost", "old")), lambda w, *a: w.cluster.lose(*a)
    ),
    "photograph": Kind(1, lambda d: (), lambda w: w.cluster.photograph()),
    "rebalance": Kind(
        2,
        lambda d: (d.one(*STAGES), d.below(4)),
        lambda w, s, p: w.cluster.rebalance(s, p % w.partitions),
    ),
    "deaf": Kind(1, lambda d: (d.one(3, 12, 40),), lambda w, n: w.deafen(n)),
    "reset": Kind(
        0.8, lambda d: (d.one("scheduler", "dispatcher"),), lambda w, s: w.reset_offsets(s)
    ),
    "reset_dedup": Kind(0.3, lambda d: (), lambda w: w.reset_offsets("dedup")),
    "lose_timers": Kind(0.4, lambda d: (), lambda w: w.lose_timers()),
    # hours by which the machines' wall clocks are wrong from now on
    "step": Kind(1, lambda d: (d.one(-12, -3, 3, 12),), lambda w, h: w.step_clock(h)),
    # worker, job: another dispatcher, which does not know the worker yet, is to cancel the job
    "takeover": Kind(
        0.7, lambda d: (d.below(3), d.below(6)), lambda w, i, j: w.takeover(_which(w, i), j)
    ),
    # stage: it goes on on another machine
    "reboot": Kind(1, lambda d: (d.one(*STAGES),), lambda w, s: w.cluster.reboot(s)),
    # hours
    "leap": Kind(
        2,
        lambda d: (d.one(1, 12, 30, 24 * 3, 24 * 7.5, 24 * 8, 24 * 16, 24 * 31),),
        lambda w, h: w.leap(h),
    ),
    "garbage": Kind(
        0.7,
        lambda d: (
            d.one("events.received", "events", "jobs.commands", "schedule"),
            d.one(*TENANTS),
        ),
        lambda w, *a: w.desk.garbage(*a),
    ),
    "route": Kind(1, lambda d: (d.one(*d.types, HALT),), lambda w, t: w.toggle_route(t)),
    # tenant, what
    "tenant": Kind(
        1,
        lambda d: (d.one(*d.tenants), d.one("disable", "disable", "enable", "erase")),
        lambda w, *a: w.tenant(*a),
    ),
    # tenant, which endpoint, what, how late it is read in seconds
    "endpoint": Kind(
        3,
        lambda d: (
            d.one(*d.tenants),
            d.below(3),
            d.one("set", "set", "rate", "filters", "disable", "remove"),
            d.one(0, 0, 2, 20),
        ),
        lambda w, *a: w.endpoint(*a),
    ),
    "layout": Kind(1, lambda d: (), lambda w: w.toggle_layout()),
    "pool": Kind(0.5, lambda d: (), lambda w: w.toggle_pool()),
    "cap": Kind(0.5, lambda d: (d.one(0, 1, 3),), lambda w, n: w.set_cap(n)),
    "wait": Kind(3, lambda d: (d.one(6, 15, 40),), lambda w, s: w.let_pass(s)),
    # partition, whether it comes back soon: see `_with_moves`
    MOVE: Kind(0, lambda d: (d.below(4), d.one(False, False, True)), lambda w, *a: w.move(*a)),
}
"""Every operation by name."""

_STORIES_WITH_MOVES = 0.3
_FAVOURED = 100
"""Many times the weight of any other operation."""
_ABOUT = {
    "answer": {"patient", "racer", "novel", "chase"},
    "burst": set(CONTROLLED),
    "decide": set(APPROVED),
    "fell": {TREE},
    "halt": {"chase"},
    "herd": {"chase"},
    "prune": {TREE},
    "regrow": {TREE},
    "release": {"novel"},
    "settle_steps": {"novel"},
}
"""The job types that some operations are about."""

AWAITED = ("reset_dedup",)
"""Left out until the product can do it: dedup, reading an event again after its window, takes that
for its first delivery, and drops the next one that comes."""


def draw(
    seed: int,
    without: Collection[str] = AWAITED,
    favour: Collection[str] = (),
    types: tuple[str, ...] = (),
) -> Story:
    """The story of a seed, without some kinds of operations, and with many of others.

    `types` are those that its jobs have, if it is not to choose.
    """
    r = Dice(seed).of("story")
    die = replace(Die.of(r), types=types) if types else Die.of(r)
    kinds = {n: kind for n, kind in KINDS.items() if kind.weight and n not in without}
    # Each seed prefers some kinds: a story of everything at once seldom goes deep.
    weights = [
        r.choice((0.2, 1, 1, 3))
        * (_FAVOURED if name in favour else kind.weight * _matters(name, die))
        for name, kind in kinds.items()
    ]
    names = r.choices(list(kinds), weights, k=r.choice((5, 8, 8, 12, 20, 40)))
    ops = tuple(Op(r.choice(_GAPS), name, kinds[name].draw(die)) for name in names)
    more = {
        "shared": Dice(seed).of("shared limits").choice((0, 0, 0, 1, 2, 3)),
        "limits": _limits(Dice(seed).of("limits")),
        "model_cap": Dice(seed).of("model limits").choice((0, 0, 0, 1, 2)),
        "max_queued": Dice(seed).of("max queued").choice((0, 0, 0, 0, 2, 6)),
    }
    setup = _setup(r, die.types) | more
    return Story(seed, setup, _with_moves(ops, die, favoured=MOVE in favour, seed=seed), types)


def _with_moves(ops: tuple[Op, ...], die: Die, *, favoured: bool, seed: int) -> tuple[Op, ...]:
    """Operations between which partitions move between two owners, in some stories."""
    r = Dice(seed).of("moves")
    if not favoured and r.random() > _STORIES_WITH_MOVES:
        return ops
    found, die = list(ops), replace(die, r=r)
    for _ in range(r.randint(1, 12 if favoured else 4)):
        move = Op(r.choice(_GAPS), MOVE, KINDS[MOVE].draw(die))
        found.insert(r.randint(0, len(found)), move)
    return tuple(found)


def _matters(name: str, die: Die) -> float:
    """How much an operation does in a story with jobs of these types."""
    about = _ABOUT.get(name)
    return 1 if about is None else 2 if about & set(die.types) else 0.1


def _limits(r: Random) -> tuple[int, bool]:
    """The caps and the rate of a story beside its tenants' cap; most stories have none."""
    return (r.choice((1, 1, 2)), r.random() < 0.3) if r.random() < 0.4 else (0, False)


def _setup(r: Random, types: tuple[str, ...]) -> dict[str, Any]:
    handled = [t for t in _TYPES if t != "late"]
    workers = [("w1", "default", r.choice((1, 2, 4, 8)), handled)]
    if r.random() < 0.7:
        workers.append(("w2", "default", r.choice((1, 3, 6)), list(handled)))
    return {
        "partitions": r.choice((1, 1, 1, 2)),
        "fused": r.random() < 0.5,
        "rounds": r.choice((1, 2, 4, 6)),
        "cap": r.choice((0, 0, 1, 2, 4)),
        "unrouted": [types[0]] if r.random() < 0.25 else [],
        "workers": workers,
        "at_once": r.choice((0, 0, 1, 2)),
        "tool_cap": r.choice((0, 0, 1, 2)),
        "breaker": r.choice((0, 0, 0, 2)),
    }
