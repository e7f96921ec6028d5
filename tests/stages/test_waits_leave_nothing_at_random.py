"""After any story, the waits of jobs are those that the index finds and that timers end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, get_args

import pytest
from support import decoded
from support.waiter import Waiter, event_wait, sleep

from streams.dispatcher.parts import waits as waits_part
from streams.dispatcher.recent_events import unpacked
from streams.dispatcher.wait_ends import takes
from streams.dispatcher.wait_index import _key
from streams.runtime.memory_broker import CrashPoint
from streams.serde.job_states import LEASED, TERMINAL, WAITING
from streams.serde.keys import split
from streams.serde.records import Job, Lease, Wait, WaitGroup

STORIES, ACTS, JOBS = 5, 100, 8


class Story:
    """Jobs that park, listen and end by chance, while events, faults and cancels come."""

    def __init__(self, seed: int) -> None:
        self.random, self.at = Random(seed), Waiter()
        self.ids: list[str] = []
        self._number = 0
        self._acts: list[Callable[[], object]] = [
            *[self._job] * 2,
            *[self._park] * 6,
            *[self._replies] * 3,
            self._end,
            self._listen,
            self._cancel,
            self._restart,
            self._crash,
        ]
        for _ in range(JOBS):
            self._job()

    def act(self) -> None:
        """One act, or several in one batch; then time passes, and all leases are listed."""
        if self.random.random() < 0.5:
            self.random.choice(self._acts)()
        else:
            with self.at.desk.held_back():
                for act in self.random.choices(
                    [self._park, self._park, self._end, self._replies], k=4
                ):
                    act()
        self.at.worker.stay(self.random.choice([0.2, 0.2, 2, 9]), *self.leases())

    def rows(self) -> dict[str, Job]:
        newest = {record.key: record.value for record in self.at.desk.driver.output("jobs")}
        return {(key or b"").decode(): decoded.job(value) for key, value in newest.items()}

    def leases(self) -> list[Lease]:
        rows = self.rows()
        return [
            lease
            for lease in self.at.desk.leases()
            if rows[lease.job_id].status in LEASED and rows[lease.job_id].run_id == lease.run_id
        ]

    def _job(self) -> None:
        self.ids.append(self.at.desk.event(f"j{len(self.ids)}"))

    def _park(self) -> None:
        for lease in self.random.sample(found := self.leases(), min(4, len(found))):
            self.at.park(lease, *self._waits())

    def _waits(self) -> list[Wait]:
        random, groups = self.random, [WaitGroup(0), WaitGroup(1, needs_all=True), WaitGroup(2)]
        waits = [self._wait() for _ in range(random.randint(1, 3))]
        return [
            wait.in_groups(tuple(random.sample(groups, random.randint(1, 2)))) for wait in waits
        ]

    def _wait(self) -> Wait:
        random, self._number = self.random, self._number + 1
        id_, kind = f"w{self._number}", self.random.choice(["event"] * 6 + ["time", "job"])
        if kind == "time":
            return sleep(random.choice([0, 40, 40, 40]), id_)
        if kind == "job":
            return Wait(id_, "job", 0, b"j", job_id=random.choice(self.ids), timeout_ms=20_000)
        how: dict[str, Any] = {"since": random.choice(["now", "job"])}
        how |= {
            "takes_it_alone": random.random() < 0.3,
            "timeout_ms": random.choice([None, None, 9_000]),
        }
        return event_wait(f"t{random.randint(1, 2)}", id_, **how)

    def _listen(self) -> None:
        for lease in self.random.sample(found := self.leases(), min(1, len(found))):
            self._number += 1
            wait = event_wait(f"t{self.random.randint(1, 2)}", f"l{self._number}", since="now")
            self.at.listen(lease, wait.in_groups(()))

    def _end(self) -> None:
        ends = ["retry", "failed", "continued", "released", "succeeded"]
        for lease in self.random.sample(found := self.leases(), min(1, len(found))):
            self.at.worker.end(lease, self.random.choice(ends), free=1_000, result="{}", error="no")

    def _replies(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._number += 1
            self.at.desk.event(
                f"r{self._number}", type_="reply.sent", subject=f"t{self.random.randint(1, 2)}"
            )

    def _cancel(self) -> None:
        for job_id in self.random.sample(self.ids, min(1, len(self.ids))):
            self.at.desk.cancel(job_id)

    def _restart(self) -> None:
        self.at.desk.driver.restart("dispatcher", keep_state=self.random.random() < 0.5)

    def _crash(self) -> None:
        self.at.desk.driver.crash("dispatcher", self.random.choice(get_args(CrashPoint)))


def check(story: Story) -> None:
    driver, rows = story.at.desk.driver, story.rows()
    parts, timers = driver.store("dispatcher", "parts"), driver.store("scheduler", "timers")
    live = [job for job in rows.values() if job.status not in TERMINAL]
    open_ = [(job, wait) for job in live for wait in job.waits]
    found = {key for space in (b"a", b"j") for key, _ in parts.range(space, after(space))}
    assert found == {key for job, wait in open_ if (key := _key(job, wait)) is not None}
    ends = {split(key[1:])[1]: int.from_bytes(due) for key, due in timers.range(b"i", b"j")}
    assert {name: due for name, due in ends.items() if name.endswith(".w")} == first_ends(live)
    events = [unpacked(int.from_bytes(key[1:]), value) for key, value in parts.range(b"d", b"e")]
    assert [
        w.id for j, w in open_ if w.kind == "event" and any(takes(j, w, e) for e in events)
    ] == []
    assert [w.id for _, w in open_ if w.kind == "job" and rows[w.job_id or ""] not in live] == []
    assert all(any(wait.groups for wait in job.waits) for job in live if job.status == WAITING)


def after(space: bytes) -> bytes:
    return bytes([space[0] + 1])


def first_ends(live: list[Job]) -> dict[str, int]:
    """The end of the first wait of each job, by the name of its timer."""
    ends: dict[str, int] = {}
    for job in live:
        found = [wait.until for wait in job.waits if wait.until is not None]
        if found:
            ends[f"{job.job_id}.{job.incarnation}.w"] = min(found)
    return ends


@pytest.mark.parametrize("seed", range(STORIES))
def test_the_open_waits_are_what_finds_and_ends_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(seed)
    monkeypatch.setattr(waits_part, "AT_ONCE", story.random.choice([1, 2, 200]))
    for number in range(ACTS):
        story.act()
        if number % 10 == 9:
            story.at.worker.stay(2, *story.leases())
            check(story)
    for job_id in story.ids:
        story.at.desk.cancel(job_id)
    for lease in story.leases():
        story.at.worker.end(lease, "cancelled", free=1_000)
    assert (story.at.index(), story.at.timers()) == ([], 0)
    assert {job.status for job in story.rows().values()} <= TERMINAL
