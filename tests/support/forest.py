"""Random trees of jobs at the stage, and what must hold of them after each step of a story.

A job's input names the salt of its script: how many jobs it asks for and gathers, what it awaits,
how often it continues, and how its runs end.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any, get_args

from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import JOB, WORKFLOW
from streams.serde.job_states import LEASED, NEEDS_REVIEW, REPLAYABLE, SUCCEEDED, TERMINAL
from streams.serde.keys import workflow_key
from streams.serde.records import ChildSpec, Job, Lease, StepResult
from streams.serde.step_ids import end_id, gathered_id
from support.family import Family, end_wait, gather_wait, spec
from support.wait_storm import lay_out
from support.waiter import sleep

GATHER = "gather[g]"
_NOT_NEEDED = "it is not needed any more"
_DEEP = 3
_ROUNDS = 400
_PATIENCE, _PATIENCE_MS = 4, 5_000
"""For how many looks, and how long, a job may live below one that ended without success: what ends
it goes on with time, and some acts of a story take none."""


class Broken(Exception):
    """An invariant does not hold; the first argument is its name."""


class Forest(Family):
    """One story: what is done to the trees is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(slots=40)
        self.chance = Random(seed)
        self.seed = seed
        self.rows: dict[str, Job] = {}
        self._read_rows = 0
        self._doomed: dict[str, tuple[int, int]] = {}
        self._looks = 0
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
            if lease.worker_id == self.worker.name:
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
        script = _Script(json.loads(lease.input), lease)
        left = {each.id: each for each in lease.steps}
        if not self.enqueue_all(lease, script, left):
            return
        waits = [wait for wait in script.waits(left) if wait.id not in left]
        if waits and waits[0].kind == "gather" and not self.list_all(lease, script):
            return
        if waits:
            self.park(lease, *waits)
        elif any(each.raises == "ChildFailed" for each in left.values()) and not script.bears:
            self.end(lease, "failed", error="a child failed")
        elif script.continues:
            self.end(lease, "continued", result=json.dumps(script.next_input()))
        else:
            self.end_by_fate(lease)

    def enqueue_all(self, lease: Lease, script: _Script, left: dict[str, StepResult]) -> bool:
        """Ask for each job; False if the run is over, or has to ask again later."""
        for call in script.calls:
            if call in left:
                continue
            before = len(self.desk.replies())
            self.ask_for(lease, call, **script.fields(call))
            told = [r for r in self.desk.replies()[before:] if r.run_id == "" and r.result]
            if not told:
                self.end(lease, "cancelled" if self.is_cancelled(lease) else "retry", error="none")
                return False
            child = json.loads(told[-1].result or "")["job_id"]
            left[call] = StepResult(call, "child", value=json.dumps({"job_id": child}))
        return True

    def list_all(self, lease: Lease, script: _Script) -> bool:
        """Seal the list and send its pages; a confused worker sends one first."""
        specs = script.specs()
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
        self._looks += 1
        log = self.desk.driver.output("jobs")
        before = dict(self.rows)
        for record in log[self._read_rows :]:
            if record.value is not None:
                self._is_one_job(JOB.decode(record.value))
        self._read_rows = len(log)
        for job_id, job in self.rows.items():
            was = before.get(job_id)
            if was is None:
                begins = job.status not in TERMINAL
            else:
                begins = job.epoch > was.epoch or job.incarnation > was.incarnation
            if begins:
                self._may_begin(job, before)
        self._none_is_left_alive()
        self._none_is_cut_off(before)
        self._lists_are_counted()

    def _is_one_job(self, job: Job) -> None:
        """A call makes one job, which begins again only after an end without success."""
        was = self.rows.get(job.job_id)
        self.rows[job.job_id] = job
        if was is None:
            return
        if (job.incarnation, job.epoch) < (was.incarnation, was.epoch):
            raise Broken("made_twice", f"{job.job_id} begins at {job.epoch} behind {was.epoch}")
        anew = job.incarnation > was.incarnation and job.continuations <= was.continuations
        if anew and (was.status not in TERMINAL or was.status == SUCCEEDED):
            raise Broken("made_twice", f"{job.job_id} was {was.status}")

    def _may_begin(self, job: Job, before: dict[str, Job]) -> None:
        for each in self._above(job, before):
            if _is_doom(each):
                raise Broken("begun_below", f"{job.job_id} begins below {each.job_id}")

    def _none_is_left_alive(self) -> None:
        since: dict[str, tuple[int, int]] = {}
        now = self.desk.driver.now
        for job_id, job in self.rows.items():
            ends = any(_has_failed(each) for each in self._above(job, self.rows))
            if ends and job.status not in TERMINAL and job.status not in LEASED:
                since[job_id] = self._doomed.get(job_id, (self._looks, now))
        self._doomed = since
        for job_id, (look, at) in since.items():
            if self._looks - look > _PATIENCE and now - at > _PATIENCE_MS:
                raise Broken("left_alive", f"{job_id} is {self.rows[job_id].status}")

    def _none_is_cut_off(self, before: dict[str, Job]) -> None:
        """Only the end of a gather ends a job below one that lives and is not being cancelled."""
        for job_id, job in self.rows.items():
            was = before.get(job_id)
            told = job.cancel_reason == _NOT_NEEDED and job.parent is not None
            if not told or was is None or was.cancel_reason == job.cancel_reason:
                continue
            parent = self._above(job, self.rows)[:1]
            if not parent or parent[0].status in TERMINAL or parent[0].cancel_requested:
                continue
            if not self._is_of_ended_gather(job):
                raise Broken("cut_off", f"{job_id} below {parent[0].job_id}")

    def _is_of_ended_gather(self, job: Job) -> bool:
        place = job.parent
        if place is None or not place.gather:
            return False
        store = self.desk.driver.store("dispatcher", "parts")
        value = store.get(f"G{place.job_id}\0{place.incarnation}\0{place.gather}".encode())
        return value is None or bool(json.loads(value)[9])

    def _above(self, job: Job, rows: dict[str, Job]) -> list[Job]:
        found: list[Job] = []
        while job.parent is not None and not job.parent.abandoned:
            parent = rows.get(job.parent.job_id)
            lives = parent is not None and (
                parent.incarnation - parent.continuations
                <= job.parent.incarnation
                <= parent.incarnation
            )
            if parent is None or not lives:
                break
            found.append(parent)
            job = parent
        return found

    def _lists_are_counted(self) -> None:
        """The numbers of each gather are those of its jobs, of which none was before the seal."""
        store = self.desk.driver.store("dispatcher", "parts")
        made: Counter[tuple[str, int, str]] = Counter()
        ended: Counter[tuple[str, int, str]] = Counter()
        for job in self.rows.values():
            if job.parent is not None and job.parent.gather:
                place = job.parent.job_id, job.parent.incarnation, job.parent.gather
                made[place] += 1
                ended[place] += job.status in TERMINAL
        for (parent_id, incarnation, id_), number in made.items():
            parent = self.rows[parent_id]
            if parent.status in TERMINAL or parent.incarnation != incarnation:
                continue
            value = store.get(f"G{parent_id}\0{incarnation}\0{id_}".encode())
            if value is None:
                raise Broken("unsealed", f"{number} jobs of {parent_id} {id_}")
            _, count, _, _, _, listed, begun, succeeded, failed, is_over, *_ = json.loads(value)
            if not number <= begun <= listed <= count:
                raise Broken("unsealed", f"{number} jobs of {parent_id}: {value!r}")
            if not is_over and succeeded + failed != ended[parent_id, incarnation, id_]:
                told = f"{ended[parent_id, incarnation, id_]} of {parent_id} ended: {value!r}"
                raise Broken("uncounted", told)

    def at_the_end(self) -> None:
        """All have ended, workflows count them, and nothing is left.

        Raises:
            Broken: that is not so.
        """
        live = {id_: job.status for id_, job in self.rows.items() if job.status not in TERMINAL}
        if live:
            raise Broken("never_ends", f"{live}")
        if self.leftovers():
            raise Broken("leftovers", f"{self.leftovers()[:3]}")
        newest = {record.key: record.value for record in self.desk.driver.output("workflows")}
        counted: dict[bytes, Counter[str]] = {}
        for job in self.rows.values():
            if job.workflow_id is not None:
                place = workflow_key(job.tenant_id, job.workflow_id)
                counted.setdefault(place, Counter())[job.status] += 1
        for place, numbers in counted.items():
            found = WORKFLOW.decode(newest[place])
            if found.jobs != dict(numbers) or found.kept != numbers.total():
                raise Broken("miscounted", f"{found} has {numbers}")


class _Script:
    """What the runs of one life of a job do."""

    def __init__(self, data: dict[str, Any], lease: Lease) -> None:
        self._data = data
        chance = Random(f"{data['salt']}")
        level = data["level"]
        room = level < _DEEP
        self._salt, self._level = data["salt"], level
        self.calls = [f"c{n}" for n in range(chance.choice((0, 1, 2)) if room else 0)]
        self._abandoned = [call for call in self.calls if chance.random() < 0.2]
        self._awaited = [call for call in self.calls if chance.random() < 0.7]
        self.count = chance.choice((0, 0, 3, 7)) if room else 0
        self.limit = chance.choice((1, 2, 50))
        self.tolerated = chance.choice((0, 0, 1, self.count))
        self._naps = chance.choice((0, 0, 0, 3, 60))
        self.bears = chance.random() < 0.3
        self.continues = chance.random() < 0.15 and data.get("turn", 0) < 2

    def fields(self, call: str) -> dict[str, Any]:
        """What the call asks for."""
        return {"input_": self._input(call), "abandoned": call in self._abandoned}

    def specs(self) -> list[ChildSpec]:
        """The list of the gather."""
        names = [gathered_id(GATHER, n, None) for n in range(self.count)]
        return [spec(name, input_=self._input(name)) for name in names]

    def waits(self, left: dict[str, StepResult]) -> list[Any]:
        """The next thing that a run awaits."""
        if self._naps and "sleep" not in left:
            return [sleep(self._naps)]
        if self.count and GATHER not in left:
            return [gather_wait(GATHER)]
        for call in self._awaited:
            if end_id(call) not in left:
                return [end_wait(call, json.loads(left[call].value or "")["job_id"])]
        return []

    def next_input(self) -> dict[str, Any]:
        turn = self._data.get("turn", 0) + 1
        return self._data | {"salt": f"{self._salt}+{turn}", "turn": turn}

    def _input(self, name: str) -> str:
        return json.dumps({"salt": f"{self._salt}/{name}", "level": self._level + 1})


def _is_doom(job: Job) -> bool:
    """Whether nothing below a job may begin."""
    return job.cancel_requested or _has_failed(job)


def _has_failed(job: Job) -> bool:
    """Whether all below a job end; one that is being cancelled has not ended yet."""
    return job.status in TERMINAL and job.status != SUCCEEDED
