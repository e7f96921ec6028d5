"""Plays stories: one seed, many seeds, the shortest story that still fails."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from simulation import consistency, told
from simulation.chance import certain
from simulation.outside import Violation
from simulation.story import KINDS, Story
from simulation.world import World
from streams.dispatcher.parts import children, event_cancels, gathers
from streams.serde.job_states import TERMINAL

_SETTLE_SECONDS, _EACH_SECONDS = 900, 60
"""Jobs may have to run one after the other."""
_AT_ONCE = (
    (event_cancels, "AT_ONCE"),
    (event_cancels, "_EACH"),
    (children, "AT_ONCE"),
    (gathers, "AT_ONCE"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    story: Story
    name: str
    detail: str


@contextmanager
def silent() -> Iterator[None]:
    """The product's log lines, and looking for garbage in each seed's world, cost much."""
    before, threshold = structlog.get_config(), gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
        gc.set_threshold(*threshold)


def play(story: Story, tell: Callable[..., None] | None = None) -> Failure | None:
    """One story, to its end or its first broken guarantee."""
    with certain(story.seed), few_at_once(story.setup.get("at_once", 0)):
        try:
            _play(story, tell)
        except Violation as found:
            return Failure(story, found.name, found.detail)
        except Exception as error:
            if tell is not None:
                raise
            return Failure(story, f"raised_{type(error).__name__}", str(error))
    return None


@contextmanager
def few_at_once(jobs: int) -> Iterator[None]:
    """One step looks at so many jobs that an event may cancel, or that end with their parent, or
    that a gather makes; 0: at the product's own numbers.
    """
    before = [(vars(part), name, vars(part)[name]) for part, name in _AT_ONCE]
    for names, name, _ in before if jobs else ():
        names[name] = jobs
    try:
        yield
    finally:
        for names, name, value in before:
            names[name] = value


def _play(story: Story, tell: Callable[..., None] | None) -> None:
    world = World(story.seed, story.setup, tell)
    with world.cluster.wall.shown():
        _go_on(world, story)


def _go_on(world: World, story: Story) -> None:
    for op in story.ops:
        world.let_pass(op.gap)
        world.tell("***", op.name, *op.args)
        KINDS[op.name].act(world, *op.args)
        world.tick(0.1)
        consistency.derived(world)
    world.heal()
    live = sum(job.status not in TERMINAL for job in world.judge.jobs.values())
    world.judge.at_the_end(settled=world.settle(_SETTLE_SECONDS + live * _EACH_SECONDS))
    world.judge.code.at_the_end()
    world.canary()
    if world.judge.waiting.held:
        world.let_pass(20)
    world.judge.waiting.at_the_end()
    told.at_the_end(world)
    world.judge.trees.at_the_end()
    world.let_pass(2)
    world.door.at_the_end()
    consistency.folds(world)


def shrink(failure: Failure, seconds: float) -> Failure:
    """Leave operations out, in ever smaller parts, as long as the same invariant breaks."""
    end = time.monotonic() + seconds
    part = max(1, len(failure.story.ops) // 2)
    while part and time.monotonic() < end:
        failure, smaller = _without_parts(failure, part, end)
        part = part if smaller and part > 1 else (part // 2 if part > 1 else int(smaller))
    return failure


def _without_parts(failure: Failure, part: int, end: float) -> tuple[Failure, bool]:
    start, smaller = 0, False
    while start < len(failure.story.ops) and time.monotonic() < end:
        ops = failure.story.ops
        rest = ops[:start] + ops[start + part :]
        found = play(replace(failure.story, ops=rest))
        if found is not None and found.name == failure.name:
            failure, smaller = found, True
        else:
            start += part
    return failure, smaller
