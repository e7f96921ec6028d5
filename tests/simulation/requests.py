"""What integrators and operators ask, and what was asked: the truth that jobs are judged by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from simulation.flow_control import CONTROLLED
from simulation.wiring import ANSWER, HALT, SOURCE
from streams.serde.codec import COMMAND, ENVELOPE
from streams.serde.effect_scopes import is_shared
from streams.serde.ids import (
    event_job_id,
    fingerprint,
    new_id,
    partition_for,
    replay_job_id,
    submitted_job_id,
)
from streams.serde.records import (
    Cancel,
    Command,
    CommandBody,
    Envelope,
    Job,
    PayloadRef,
    Replay,
    Reroute,
    Submit,
)

if TYPE_CHECKING:
    from simulation.world import World


_ALWAYS_NEW = ("chase", *CONTROLLED)
"""Types whose events repeat none."""
LARGE = 50_000
"""Bytes of an input that some broker may not take in a lease."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that makes a job, unless it repeats one: `root` is its own, new each time."""

    root: str
    tenant: str
    job_id: str
    type: str
    at: int
    owed: bool
    """Whether it was routed when it came: then it has a job, or has one already."""
    fingerprint: bytes = b""


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that cancels others or may be cancelled; `rerouted`: how often routes had changed.

    `owed`: whether it had a route.
    """

    at: int
    rerouted: int
    owed: bool


class Desk:
    """Deliveries, submissions and an operator's requests; keeps what was asked."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked: dict[str, Asked] = {}
        self.owners: dict[str, str] = {}
        self.ids: list[str] = []
        self.cancelled: dict[str, list[tuple[int, str | None]]] = {}
        """By job: when somebody asked to cancel it, and the request (root) that it was then of."""
        self.replays: dict[str, Replay] = {}
        self.replayed_at: dict[str, int] = {}
        self.sent: dict[str, Sent] = {}
        """By event."""
        self.erased: set[str] = set()
        self._times: Counter[tuple[str, str, str]] = Counter()

    def deliver(self, tenant: str, key: str, job_type: str) -> None:
        """One delivery of an event; its id is new, its dedup key only for some types."""
        owed = job_type not in self._world.wiring.unrouted
        if owed and self._world.door.refuses(tenant, job_type):
            return
        root = self._root("evt", tenant, f"{job_type}-{key}")
        event = _envelope(root, tenant, f"{job_type}-{key}", job_type, routed=owed)
        if job_type in _ALWAYS_NEW:
            event = self._new(event, root)
        job_id = event_job_id(tenant, SOURCE, event.dedup_key)
        self._pipe("events.received", tenant, ENVELOPE.encode(event))
        at, print_ = self._world.true_ms, event.fingerprint
        self._note(Asked(event.event_id, tenant, job_id, job_type, at, owed, print_))

    def answer(self, tenant: str, key: str, job_type: str) -> None:
        """An event for which jobs of a type and key may wait; each is a new one."""
        root = self._root("ans", tenant, f"{job_type}-{key}")
        event = _envelope(root, tenant, root, ANSWER, routed=False)
        event = replace(event, subject=f"{job_type}-{key}")
        self._pipe("events.received", tenant, ENVELOPE.encode(event))

    def herd(self, tenant: str, key: str) -> None:
        """Some events of one subject, whose jobs one event may cancel."""
        for _ in range(5):
            self.deliver(tenant, key, "chase")

    def burst(self, tenant: str, key: str, job_type: str, events: int) -> None:
        """Some events of one subject, one right after the other."""
        for _ in range(events):
            self.deliver(tenant, key, job_type)

    def halt(self, tenant: str, key: str) -> None:
        """An event that cancels the jobs of earlier `chase` events of a key."""
        root = self._root("hlt", tenant, key)
        owed = HALT not in self._world.wiring.unrouted
        event = self._new(_envelope(root, tenant, f"chase-{key}", HALT, routed=owed), root)
        self._pipe("events.received", tenant, ENVELOPE.encode(event))

    def _new(self, event: Envelope, root: str) -> Envelope:
        """An event that repeats no other one of its subject."""
        self.sent[root] = Sent(self._world.true_ms, self._world.wiring.rerouted, event.routed)
        new = fingerprint(event.tenant_id, SOURCE, root)
        return replace(event, dedup_key=root, fingerprint=new)

    def answer_all(self) -> None:
        """Answer every job that waits for it."""
        waiting = [j for j in self._world.judge.jobs.values() if j.status == "waiting"]
        asked = {
            (job.tenant_id, match_subject(wait.match))
            for job in waiting
            for wait in job.waits
            if wait.kind == "event"
        }
        for tenant, subject in sorted(asked):
            job_type, _, key = subject.partition("-")
            self.answer(tenant, key, job_type)

    def submit(
        self, tenant: str, key: str, job_type: str, delay_seconds: float = 0, size: int = 0
    ) -> None:
        """A direct submission; its key makes repetitions one job."""
        if self._world.door.refuses(tenant, job_type):
            return
        root = self._root("req", tenant, f"{job_type}-{key}")
        text = orjson.dumps({"root": root, "tenant": tenant, "rest": "x" * size}).decode()
        run_at = self._world.true_ms + round(delay_seconds * 1000) if delay_seconds else None
        job_id = submitted_job_id(tenant, f"{job_type}-{key}")
        body = Submit(job_type, text, None, run_at, None, None, None, "ops", b"hash", None)
        self.command(body, tenant, job_id)
        self._note(Asked(root, tenant, job_id, job_type, self._world.true_ms, owed=True))

    def cancel(self, which: int) -> None:
        """Cancel the so-manieth job."""
        if (job_id := self._pick(which)) is not None:
            self.cancel_job(job_id)

    def cancel_job(self, job_id: str) -> None:
        """Cancel a job as the read model shows it."""
        job = self._world.judge.jobs.get(job_id)
        incarnation = job.incarnation if job else None
        meant = self._world.judge.root_of(job) if job else None
        self.cancelled.setdefault(job_id, []).append((self._world.true_ms, meant))
        body = Cancel("not needed", "ops", incarnation)
        self.command(body, self.owners[job_id], job_id)

    def replay(self, which: int, key: int, *, fresh: bool, again: bool) -> None:
        """Replay a job that is dead, failed or in review; `key` makes repetitions one replay."""
        found = [j for j in self._world.judge.jobs.values() if is_replayable(j)]
        if not found:
            return
        self.replay_job(found[which % len(found)], key, fresh=fresh, again=again)

    def replay_job(self, old: Job, key: int, *, fresh: bool, again: bool) -> None:
        """Replay a job as the read model shows it."""
        job_id = replay_job_id(old.tenant_id, old.job_id, f"replay-{key}")
        own = [e for e in self._world.judge.effects(old) if not is_shared(e.action)]
        done = [e.action for e in own if e.status == "done"]
        effects = tuple(done) if again else ()
        body = Replay(old.job_id, "mended", fresh, "ops", again, effects)
        if not fresh or job_id not in self.replays:  # fresh for sure, if every request of it is
            self.replays[job_id] = body
        self.replayed_at.setdefault(job_id, self._world.true_ms)
        self.owners.setdefault(job_id, old.tenant_id)
        self.command(body, old.tenant_id, job_id)

    def reroute(self, which: int) -> None:
        """An operator wants a job for an event that got none."""
        events = [a for a in self.asked.values() if a.fingerprint]
        if events:
            asked = events[which % len(events)]
            body = Reroute(asked.fingerprint, "its route is there now", "ops")
            self.command(body, asked.tenant, asked.job_id)

    def unowe(self, job_type: str) -> None:
        """A route is gone: events that are still on their way may find none."""
        for root, asked in self.asked.items():
            if asked.type == job_type and root not in self._world.judge.made:
                self.asked[root] = replace(asked, owed=False)

    def command(self, body: CommandBody, tenant: str, job_id: str, epoch: int = 0) -> None:
        at = self._world.true_ms
        value = COMMAND.encode(Command(new_id("cmd"), tenant, job_id, epoch, at, body))
        self._pipe("jobs.commands", tenant, value)
        self._world.tell("asked:", type(body).__name__, job_id)

    def garbage(self, topic: str, tenant: str) -> None:
        """A record that no stage can read."""
        record = self._pipe(topic, tenant, b"\0garbage")
        self._world.judge.injected.add((topic, record[0], record[1]))

    def _pipe(self, topic: str, tenant: str, value: bytes) -> tuple[int, int]:
        partition = partition_for(tenant, self._world.partitions)
        record = self._world.cluster.append(topic, tenant.encode(), value, partition)
        return record.partition, record.offset

    def _root(self, kind: str, tenant: str, key: str) -> str:
        """The name of a request: in a story with an operation less, others keep theirs."""
        self._times[kind, tenant, key] += 1
        return f"{kind}_{tenant}-{key}-{self._times[kind, tenant, key]}"

    def noted(self, asked: Asked) -> None:
        """Something else than a person has asked for a job."""
        self.asked[asked.root] = asked
        self.owners[asked.job_id] = asked.tenant

    def _note(self, asked: Asked) -> None:
        self.asked[asked.root] = asked
        if asked.job_id not in self.owners:
            self.ids.append(asked.job_id)
        self.owners[asked.job_id] = asked.tenant
        self._world.tell("asked:", asked.type, "of", asked.tenant, asked.job_id, asked.root)

    def _pick(self, which: int) -> str | None:
        return self.ids[which % len(self.ids)] if self.ids else None


def match_subject(match: str) -> str:
    return str(orjson.loads(match)["subject"])


def is_replayable(job: Job) -> bool:
    return job.status in ("failed", "dead", "needs_review")


def _envelope(root: str, tenant: str, key: str, job_type: str, *, routed: bool) -> Envelope:
    return Envelope(
        fingerprint=fingerprint(tenant, SOURCE, key),
        event_id=root,
        source=SOURCE,
        tenant_id=tenant,
        event_type=job_type,
        occurred_at=None,
        received_at=1,
        payload_hash=b"h" * 32,
        dedup_key=key,
        subject=key,
        content_type="application/json",
        delivery_id=None,
        request_id=None,
        payload_ref=PayloadRef(0, (7,), 10, "kek"),
        attributes={"tenant": tenant},
        priority="webhook",
        routed=routed,
    )
