"""Random trees of jobs at the stage, and what must hold of them after each step of a story.

A job's input names the salt of its script: how many jobs it asks for and gathers, what it awaits,
how often it continues, and how its runs end.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import get_args

from streams.runtime.memory_broker import CrashPoint
from streams.runtime.processor import Record
from streams.serde.codec import JOB
from streams.serde.job_states import NEEDS_REVIEW, REPLAYABLE, TERMINAL
from streams.serde.records import ChildSpec, Job, Lease, StepResult, Wait
from streams.serde.step_ids import end_id, gathered_id
from support.family import Family, end_wait, gather_wait, spec
from support.tree_rules import TreeRules
from support.tree_script import Size, TreeScript
from support.wait_storm import lay_out
from support.waiter import sleep

GATHER = "gather[g]"
_ROUNDS = 400


class Broken(Exception):
    """An invariant does not hold; the first argument is its name."""


class Forest(Family):
    """One story: what is done to the trees is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(slots=40)
        self.chance = Random(seed)
        self.seed = seed
        self.rules = TreeRules(Broken, self._numbers, _is_late)
        self.rows = self.rules.rows
        self._read_records: Counter[str] = Counter()
        self._fused = False
        self._asked = 0
        self._roots: list[str] = []
        self._late: list[Lease] = []

    def play(self, steps: int) -> None:
        """A story, and its end: everything heals, and every job ends."""
        acts = (self.plant, self.work, self.cancel, self.replay, self.fault, self.rest)
        for _ in range(steps):
            self.chance.choices(acts, (3, 12, 2, 3, 4, 2))[0]()
            self.look()
        self.desk.driver.run_of("dispatcher").commits.armed = None
        for _ in range(_ROUNDS):
            self.work(whole=True)
            self.look()
            self.settle()
            if all(job.status in TERMINAL for job in self.rows.values()):
                break
        self.go_on(2)
        self.look()
        self.at_the_end()

    # What is done.

    def plant(self) -> None:
        """A new root."""
        self._asked += 1
        self._roots.append(f"job_root{self._asked}")
        text = json.dumps({"salt": f"{self.seed}.{self._asked}", "level": 0})
        self.desk.submit(self._roots[-1], input=text)

    def work(self, *, whole: bool = False) -> None:
        """The worker gets leases; some runs do what their script says, others later."""
        self._late += self.go_on()
        self.chance.shuffle(self._late)
        some = 0 if whole else self.chance.randint(0, len(self._late))
        now, self._late = self._late[some:], self._late[:some]
        for lease in now:
            if lease in self.worker.leases():
                self.run(lease)

    def cancel(self) -> None:
        if self.rows:
            self.desk.cancel(self.chance.choice(sorted(self.rows)))

    def replay(self) -> None:
        found = sorted(id_ for id_, job in self.rows.items() if job.status in REPLAYABLE)
        if found:
            self._asked += 1
            fresh, again = self.chance.random() < 0.2, self.chance.random() < 0.5
            of = self.chance.choice(found)
            self.desk.replay(f"job_again{self._asked}", of, fresh_scope=fresh, again=again)

    def fault(self) -> None:
        """Something dies, or is taken back."""
        match self.chance.randrange(6):
            case 0:
                self.boot()
            case 1:
                self.desk.driver.restart("dispatcher", keep_state=self.chance.random() < 0.5)
                self.desk.driver.advance(0.3)
            case 2:
                self._fused = not self._fused
                lay_out(self, fused=self._fused)
            case 3 if not self._fused:
                self.desk.abort()
            case _:
                self.desk.driver.crash("dispatcher", self.chance.choice(get_args(CrashPoint)))

    def rest(self) -> None:
        self.desk.driver.advance(self.chance.choice((1, 5, 40)))

    def settle(self) -> None:
        """Nothing waits for a person any more; each time passes."""
        for job_id, job in sorted(self.rows.items()):
            if job.status == NEEDS_REVIEW:
                self.desk.cancel(job_id)
        self._late += self.go_on(5)

    # What a run does.

    def run(self, lease: Lease) -> None:
        """One run, as far as it gets."""
        script = TreeScript(json.loads(lease.input), Size())
        left = {each.id: each for each in lease.steps}
        if not self.enqueue_all(lease, script, left):
            return
        waits = _waits(script, left)
        if waits and waits[0].kind == "gather" and not self.list_all(lease, script):
            return
        if waits:
            self.park(lease, *waits)
        elif any(each.raises == "ChildFailed" for each in left.values()) and not script.bears:
            self.end(lease, "failed", error="a child failed")
        elif script.continues:
            self.end(lease, "continued", result=json.dumps(script.next_turn()))
        else:
            self.end_by_fate(lease)

    def enqueue_all(self, lease: Lease, script: TreeScript, left: dict[str, StepResult]) -> bool:
        """Ask for each job; False if the run is over, or has to ask again later."""
        for call in script.calls:
            if call in left:
                continue
            before = len(self.desk.replies())
            text = json.dumps(script.below(call))
            self.ask_for(lease, call, input_=text, abandoned=call in script.abandoned)
            told = [r for r in self.desk.replies()[before:] if r.run_id == "" and r.result]
            if not told:
                self.end(lease, "cancelled" if self.is_cancelled(lease) else "retry", error="none")
                return False
            child = json.loads(told[-1].result or "")["job_id"]
            left[call] = StepResult(call, "child", value=json.dumps({"job_id": child}))
        return True

    def list_all(self, lease: Lease, script: TreeScript) -> bool:
        """Seal the list and send its pages; a confused worker sends one first."""
        specs = _specs(script)
        if self.chance.random() < 0.3:
            self.add(lease, 0, specs[:2], GATHER)
            if self.chance.random() < 0.3:
                return False  # it dies before the seal
        before = len(self.desk.replies())
        self.seal(lease, len(specs), id_=GATHER, limit=script.limit, tolerated=script.tolerated)
        told = [r for r in self.desk.replies()[before:] if r.run_id == "" and r.result]
        if not told:
            self.end(lease, "cancelled" if self.is_cancelled(lease) else "retry", error="none")
            return False
        first = json.loads(told[-1].result or "")["listed"]
        while first < len(specs):
            self.add(lease, first, specs[first : first + 3], GATHER)
            first += 3
            if self.chance.random() < 0.1:
                return False  # its worker dies here
        return True

    def is_cancelled(self, lease: Lease) -> bool:
        return self.job(lease.job_id).cancel_requested

    def end_by_fate(self, lease: Lease) -> None:
        match self.chance.choices("srfvc", (12, 2, 3, 1, 0.5))[0]:
            case "s":
                self.end(lease)
            case "r":
                self.end(lease, "retry", error="busy")
            case "f":
                self.end(lease, "failed", error="no")
            case "v":
                self.end(lease, "review", error="who knows", diverged="step")
            case _:
                self.desk.cancel(lease.job_id)
                self.end(lease, "cancelled")

    # What must hold.

    def look(self) -> None:
        """Read what was committed since the last look, and hold it against the promises."""
        for record in self._news("jobs"):
            job = None if record.value is None else JOB.decode(record.value)
            self.rules.changed((record.key or b"").decode(), job)
        for record in self._news("workflows"):
            self.rules.workflows.told(record.key or b"", record.value)
        self.rules.look(self.desk.driver.now)

    def at_the_end(self) -> None:
        """All have ended, and nothing is left.

        Raises:
            Broken: that is not so.
        """
        self.rules.all_have_ended()
        if self.leftovers():
            raise Broken("leftovers", f"{self.leftovers()[:3]}")

    def _news(self, topic: str) -> list[Record]:
        log, read = self.desk.driver.output(topic), self._read_records[topic]
        self._read_records[topic] = len(log)
        return log[read:]

    def _numbers(self, parent: Job, gather: str) -> bytes | None:
        key = f"G{parent.job_id}\0{parent.incarnation}\0{gather}"
        return self.desk.driver.store("dispatcher", "parts").get(key.encode())


def _waits(script: TreeScript, left: dict[str, StepResult]) -> list[Wait]:
    """The next thing that a run awaits."""
    if script.nap and "sleep" not in left:
        return [sleep(script.nap)]
    if script.count and GATHER not in left:
        return [gather_wait(GATHER)]
    for call in script.awaited:
        if end_id(call) not in left:
            return [end_wait(call, json.loads(left[call].value or "")["job_id"])]
    return []


def _specs(script: TreeScript) -> list[ChildSpec]:
    """The list of the gather."""
    names = [gathered_id(GATHER, n, None) for n in range(script.count)]
    return [spec(name, input_=json.dumps(script.below(name))) for name in names]


def _is_late(looks: int, ms: int) -> bool:
    """Some acts of a story take no time."""
    return looks > 4 and ms > 5_000
