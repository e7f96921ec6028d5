"""What a park ends at once, for waits in any groups, is what a plain model of it ends.

The model goes through the events in their order. Before each, the waits end whose time was over.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from support.waiter import Waiter, event_wait, sleep

from streams.dispatcher.checkpoints import steps_of
from streams.serde.records import StepResult, Wait, WaitGroup

STORIES = 25


@dataclass
class Model:
    """The waits of one park; `left` is what has ended each, by its id."""

    waits: list[Wait]
    left: dict[str, object] = field(default_factory=dict)
    over: set[WaitGroup] = field(default_factory=set)

    def is_open(self, wait: Wait) -> bool:
        return wait.id not in self.left and not self.over.issuperset(wait.groups)

    def end(self, wait: Wait, what: object) -> None:
        self.left[wait.id] = what
        for group in wait.groups:
            others = [w for w in self.waits if group in w.groups and self.is_open(w)]
            if not group.needs_all or what == "WaitTimeout" or not others:
                self.over.add(group)

    def times_over(self, by: int) -> None:
        late = [wait for wait in self.waits if wait.until is not None and wait.until < by]
        for wait in sorted(late, key=lambda each: (each.until, self.waits.index(each))):
            if self.is_open(wait):
                self.end(wait, "null" if wait.kind == "time" else "WaitTimeout")

    def came(self, at: int, subject: str) -> None:
        self.times_over(at)
        is_taken = False
        for wait in self.waits:
            concerns = wait.kind == "event" and json.loads(wait.match)["subject"] == subject
            if concerns and self.is_open(wait) and not (is_taken and wait.takes_it_alone):
                is_taken |= wait.takes_it_alone
                self.end(wait, at)


def any_waits(random: Random, now: int) -> list[Wait]:
    groups = [WaitGroup(number, random.random() < 0.5) for number in range(random.randint(1, 3))]
    waits = []
    for number in range(random.randint(1, 6)):
        over = now - random.randint(1, 15) * 1_000 + 500
        if random.random() < 0.3:
            until = random.choice([over, now + 99_000])
            wait = sleep(0, f"w{number}", until=until, timeout_ms=None)
        else:
            how: Any = {"takes_it_alone": random.random() < 0.5}
            how["until"] = random.choice([None, None, over])
            wait = event_wait(f"t{random.randint(1, 3)}", f"w{number}", **how)
        waits.append(wait.in_groups(tuple(random.sample(groups, random.randint(1, len(groups))))))
    return waits


def ended_by(left: StepResult) -> object:
    """The time of the event that has ended a wait, or what else has."""
    is_event = left.kind == "event" and left.raises is None
    return json.loads(left.value or "")["at"] if is_event else left.raises or left.value


@pytest.mark.parametrize("seed", range(STORIES))
def test_a_park_ends_what_the_model_ends(seed: int) -> None:
    random, at = Random(seed), Waiter()
    lease, events = at.job(), []
    for _ in range(random.randint(0, 6)):
        at.worker.stay(random.randint(1, 3), lease)
        subject = f"t{random.randint(1, 3)}"
        at.reply(subject)
        events.append((at.desk.driver.now, subject))
    at.worker.stay(5, lease)
    model = Model(any_waits(random, at.desk.driver.now))
    for event in events:
        model.came(*event)
    model.times_over(at.desk.driver.now)
    at.park(lease, *model.waits)
    job = at.desk.job(lease.job_id)
    found = steps_of(at.desk.driver.store("dispatcher", "checkpoints"), job)
    assert {each.id: ended_by(each) for each in found if each.kind != "passed"} == model.left
    assert [wait.id for wait in job.waits] == [w.id for w in model.waits if model.is_open(w)]
    assert (job.status == "waiting") is (not model.over)
