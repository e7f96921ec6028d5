"""Replays: a new job does the work of one that ended badly, or of an event of the past.

Each rule that refuses a replay names the reason. The operator checks the same rules before it
writes the command; a replay that is refused here becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams import dead_letter, ledger
from streams.dispatcher import jobs, metrics
from streams.dispatcher.lifecycle import Lifecycle
from streams.errors import PoisonRecord
from streams.serde.codec import ENVELOPE
from streams.serde.records import Command, Job, Replay, ReplayEvent
from streams.topology.model import Topology

_REPLAYABLE = ("failed", "dead", "needs_review")
_NAMED = 20
"""A refusal lists at most this many effects, so that its dead letter fits a message."""


class Replays:
    """Applies the replays of one step; `admitted` takes each new job in."""

    def __init__(
        self, life: Lifecycle, topology: Topology, admitted: Callable[[Job], None]
    ) -> None:
        self._life = life
        self._store = life.store
        self._topology = topology
        self._admitted = admitted

    def replay(self, command: Command, body: Replay, at: int) -> None:
        """Make a new job from an old one; reading the command again changes nothing."""
        if self._store.get(command.job_id) is not None:
            metrics.TWINS.inc()
            return
        old = self._replayable(command, body, at)
        if body.fresh_scope:
            self._check_effects(old, body)
        else:
            self._check_scope(old)
        job = jobs.from_replay(command, body, old, self._topology, at=at, now=self._life.now)
        self._close(old, body, job, at)
        if not body.fresh_scope:
            self._store.share(job)
            self._store.inherit_steps(job, old)
        self._admitted(job)

    def replay_event(self, command: Command, body: ReplayEvent, at: int) -> None:
        """Make the job that a replay gives an event; reading the command again changes nothing.

        Raises:
            PoisonRecord: the event cannot be read, or is another tenant's.
        """
        known = self._store.get(command.job_id) is not None
        if known or self._life.place(command.job_id, at) is None:
            metrics.TWINS.inc()
            return
        envelope = ENVELOPE.decode(body.event)
        if envelope.tenant_id != command.tenant_id:
            raise PoisonRecord("replay_of_unknown", "the event is one of another tenant")
        self._admitted(
            jobs.from_event_replay(
                command, body, envelope, self._topology, at=at, now=self._life.now
            )
        )

    def _replayable(self, command: Command, body: Replay, at: int) -> Job:
        old = self._store.get(body.replay_of)
        if old is None or old.tenant_id != command.tenant_id or old.event_time > at:
            raise PoisonRecord("replay_of_unknown", f"no job {body.replay_of} to replay")
        if old.replayed_as is not None and not body.again:
            raise PoisonRecord(
                "already_replayed",
                f"job {old.job_id} was replayed as {old.replayed_as}: see what became of that "
                "one, or ask for another replay with `again` (`--again`)",
            )
        if old.status not in _REPLAYABLE:
            raise PoisonRecord("not_replayable", f"job {old.job_id} is {old.status}")
        return old

    def _check_scope(self, old: Job) -> None:
        """Allow one live job per scope, because two would treat each other's claims as ended."""
        for job in self._store.in_scope(old.scope):
            if job.job_id != old.job_id and jobs.is_live(job):
                raise PoisonRecord(
                    "scope_in_use",
                    f"job {job.job_id} is {job.status} and works in the scope of {old.job_id}: "
                    "wait for its end, or cancel it",
                )

    def _check_effects(self, old: Job, body: Replay) -> None:
        """Require a name for each effect that happened or may have: a fresh scope repeats it."""
        entries = ledger.entries(self._life.ctx.store("ledger"), old)
        begun = [entry for entry in entries if entry.status != "failed"]
        unnamed = [each for each in begun if each.action not in body.repeat_effects]
        if unnamed:
            listed = ", ".join(f"{each.action} ({each.status})" for each in unnamed[:_NAMED])
            more = f" and {len(unnamed) - _NAMED} more" if len(unnamed) > _NAMED else ""
            raise PoisonRecord(
                "effects_done",
                f"a fresh scope would begin these effects of {old.job_id} again: {listed}{more}; "
                "name each in `repeat_effects`, or replay in the old scope",
            )

    def _close(self, old: Job, body: Replay, job: Job, at: int) -> None:
        """Record the replay in the old job and in its dead letter."""
        if old.status == "needs_review":
            old = self._life.end(old, "cancelled", error=f"replayed as {job.job_id}: {body.note}")
        old = replace(old, replayed_as=job.job_id)
        self._store.put(old)
        if old.status != "cancelled":
            letter = dead_letter.of_replayed(old, job.job_id, at, body.note, body.submitted_by)
            self._life.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
