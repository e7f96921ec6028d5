"""Random handlers crash at each step: what was recorded stays, and nothing diverges.

A program is a tree of steps, gathers, branches, loops and steps that may fail. It runs again and
again, each time with other delays and failures, and each time the worker dies after one more result
is durable.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.redaction.redaction import Redaction
from streams.serde.records import Checkpoint, StepResult
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.history import History
from streams.worker.handler.steps import Steps

Node = tuple[Any, ...]
NAMES = st.sampled_from("abc")


def _inner(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    body = st.lists(nodes, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("branches"), st.lists(body, min_size=1, max_size=3)),
        st.tuples(st.just("within"), NAMES, body),
        st.tuples(st.just("loop"), st.integers(1, 3), body),
    )


NODES = st.recursive(
    st.one_of(
        st.tuples(st.just("step"), NAMES),
        st.tuples(st.just("keyed"), NAMES, st.integers(1, 3)),
        st.tuples(st.just("gather"), st.lists(NAMES, min_size=2, max_size=3, unique=True)),
        st.tuples(st.just("try"), NAMES),
        st.tuples(st.just("patch"), NAMES),
    ),
    _inner,
    max_leaves=8,
)


class Away(Exception):
    """The tool of a step does not answer."""


@dataclass
class World:
    """What outlives a run: the recorded results, and what the functions did."""

    recorded: dict[str, StepResult] = field(default_factory=dict)
    values: dict[str, set[str]] = field(default_factory=dict)
    made: int = 0


@dataclass
class Run:
    """One run of a program over the world; it dies when `lives` results are durable."""

    world: World
    chance: random.Random
    lives: int

    def __post_init__(self) -> None:
        left = tuple(self.world.recorded.values())
        lease = SimpleNamespace(steps=left, input="null", event=None, run_id="run", job_id="job")
        self.history = History(left)
        self.died = asyncio.get_running_loop().create_future()
        no_models: Any = None
        session: Any = SimpleNamespace(
            redaction=Redaction(),
            lease=lease,
            check=lambda: None,
            say=self.say,
            stop=self.stop,
            busy=nullcontext,
            live=SimpleNamespace(begin=lambda step: None),
        )
        self.steps = Steps(session, self.history, no_models, Artifacts(session, None))

    async def say(self, body: Checkpoint) -> None:
        await self.delay()
        if not self.lives:
            if not self.died.done():
                self.died.set_result(None)
            await asyncio.Event().wait()
        self.lives -= body.step.kind == "step"
        before = self.world.recorded.setdefault(body.step.id, body.step)
        assert before == body.step, "a result was recorded twice"

    def stop(self, verdict: Any) -> None:
        raise AssertionError(verdict.error)

    async def delay(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)

    def step(self, name: str, *, key: str | None = None, fails: bool = False) -> Awaitable[Any]:
        return self.steps.step(name, self.work, (name, fails), {}, key=key)

    async def work(self, name: str, fails: bool) -> str:
        await self.delay()
        if fails and self.chance.random() < 0.5:
            raise Away
        self.world.made += 1
        return f"{name}{self.world.made}"

    async def body(self, nodes: list[Node]) -> list[Any]:
        return [await getattr(self, f"do_{node[0]}")(*node[1:]) for node in nodes]

    async def do_step(self, name: str) -> Any:
        return await self.step(name)

    async def do_keyed(self, name: str, count: int) -> Any:
        return await asyncio.gather(*(self.step(name, key=str(n)) for n in range(count)))

    async def do_gather(self, names: list[str]) -> Any:
        return await asyncio.gather(*map(self.step, names))

    async def do_try(self, name: str) -> Any:
        try:
            return await self.step(name, fails=True)
        except Away:
            return ["fell back", await self.step(f"{name}-fallback")]

    async def do_patch(self, name: str) -> Any:
        return self.history.patched(name) and await self.step(f"{name}-new")

    async def do_within(self, name: str, nodes: list[Node]) -> Any:
        with self.history.branch(name, "line"):
            return await self.body(nodes)

    async def do_branches(self, bodies: list[list[Node]]) -> Any:
        tasks = [self.do_within(f"task {n}", body) for n, body in enumerate(bodies)]
        return await asyncio.gather(*tasks)

    async def do_loop(self, count: int, nodes: list[Node]) -> Any:
        return [await self.body(nodes) for _ in range(count)]


async def outcome_of(world: World, program: list[Node], seed: int, lives: int) -> list[Any] | None:
    """What the program returns; None if its worker dies."""
    run = Run(world, random.Random(seed), lives)
    task = asyncio.create_task(run.body(program))
    await asyncio.wait({task, run.died}, return_when="FIRST_COMPLETED")
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return None
    return task.result()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(NODES, min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_program_that_crashes_at_each_step_keeps_one_value_of_each(
    program: list[Node], seed: int
) -> None:
    asyncio.run(checked(program, random.Random(seed)))


async def checked(program: list[Node], chance: random.Random) -> None:
    world = World()
    outcome = None
    for _ in range(400):
        before = dict(world.recorded)
        outcome = await outcome_of(world, program, chance.randrange(2**32), lives=1)
        assert before.items() <= world.recorded.items()
        if outcome is not None:
            break
    assert outcome is not None, "it never came to its end"
    steps = [left for left in world.recorded.values() if left.kind == "step"]
    assert len({left.value for left in steps}) == len(steps), "each call has its own value"
    if "'try'" not in repr(program):
        assert await outcome_of(world, program, 0, lives=0) == outcome, "all of it is read"
