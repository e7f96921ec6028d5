"""Replays: a new job does the work of one that ended badly, or of an event of the past.

Each rule that refuses a replay names the reason. The operator checks the same rules before it
writes the command; a replay that is refused here becomes a dead letter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from streams import dead_letter
from streams.dispatcher import metrics
from streams.dispatcher.children import inherit_steps, stand_in
from streams.dispatcher.job import is_live
from streams.dispatcher.part import Part
from streams.dispatcher.scopes import SHARED, in_scope, share
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import end, place
from streams.dispatcher.tree import spare_below
from streams.errors import PoisonRecord
from streams.ledger_entries import own_entries
from streams.new_jobs import from_event_replay, from_replay
from streams.runtime.part import handles
from streams.serde.codec import ENVELOPE
from streams.serde.effect_states import FAILED
from streams.serde.job_states import CANCELLED, NEEDS_REVIEW, REPLAYABLE
from streams.serde.records import Command, Job, Replay, ReplayEvent

_NAMED = 20
"""A refusal lists at most this many effects, so that its dead letter fits a message."""


class Replays(Part):
    """Makes the jobs of replays."""

    keys: ClassVar = {SHARED: "scopes that replays share"}

    @handles(Replay)
    def replay(self, step: Step, command: Command, body: Replay, at: int) -> None:
        """Make a new job from an old one; reading the command again changes nothing."""
        if step.table.get(command.job_id) is not None:
            metrics.TWINS.inc()
            return
        old = _replayable(step, command, body, at)
        if body.fresh_scope:
            _check_effects(step, old, body)
        else:
            _check_scope(step, old)
        job = from_replay(command.job_id, body, old, self.topology, at=at, now=step.now)
        old, job = stand_in(step, old, job)
        _close(step, old, body, job, at)
        if not body.fresh_scope:
            if is_live(old):
                spare_below(step, old)
            share(step, job)
            if body.input is None:  # results of steps belong to the input that they came of
                inherit_steps(step, job, old)
        step.admit(job)

    @handles(ReplayEvent)
    def replay_event(self, step: Step, command: Command, body: ReplayEvent, at: int) -> None:
        """Make the job that a replay gives an event; reading the command again changes nothing.

        Raises:
            PoisonRecord: the event cannot be read, or is another tenant's.
        """
        known = step.table.get(command.job_id) is not None
        if known or place(step, command.job_id, at) is None:
            metrics.TWINS.inc()
            return
        envelope = ENVELOPE.decode(body.event)
        if envelope.tenant_id != command.tenant_id:
            raise PoisonRecord("replay_of_unknown", "the event is one of another tenant")
        made = from_event_replay(command.job_id, body, envelope, self.topology, at=at, now=step.now)
        step.admit(made)


def _replayable(step: Step, command: Command, body: Replay, at: int) -> Job:
    old = step.table.get(body.replay_of)
    if old is None or old.tenant_id != command.tenant_id or old.event_time > at:
        raise PoisonRecord("replay_of_unknown", f"no job {body.replay_of} to replay")
    if old.replayed_as is not None and not body.again:
        raise PoisonRecord(
            "already_replayed",
            f"job {old.job_id} was replayed as {old.replayed_as}: see what became of that "
            "one, or ask for another replay with `again` (`--again`)",
        )
    if old.status not in REPLAYABLE:
        raise PoisonRecord("not_replayable", f"job {old.job_id} is {old.status}")
    if body.input is not None and old.event is not None:
        raise PoisonRecord("no_input", f"job {old.job_id} came of an event, and has no input")
    return old


def _check_scope(step: Step, old: Job) -> None:
    """Allow one live job per scope, because two would treat each other's claims as ended."""
    for job in in_scope(step, old.scope):
        if job.job_id != old.job_id and is_live(job):
            raise PoisonRecord(
                "scope_in_use",
                f"job {job.job_id} is {job.status} and works in the scope of {old.job_id}: "
                "wait for its end, or cancel it",
            )


def _check_effects(step: Step, old: Job, body: Replay) -> None:
    """Require a name for each effect that happened or may have: a fresh scope repeats it.

    It does not repeat a shared effect, which counts in its own scope.
    """
    begun = [entry for entry in own_entries(step.ledger, old) if entry.status != FAILED]
    unnamed = [each for each in begun if each.action not in body.repeat_effects]
    if unnamed:
        listed = ", ".join(f"{each.action} ({each.status})" for each in unnamed[:_NAMED])
        more = f" and {len(unnamed) - _NAMED} more" if len(unnamed) > _NAMED else ""
        raise PoisonRecord(
            "effects_done",
            f"a fresh scope would begin these effects of {old.job_id} again: {listed}{more}; "
            "name each in `repeat_effects`, or replay in the old scope",
        )


def _close(step: Step, old: Job, body: Replay, job: Job, at: int) -> None:
    """Record the replay in the old job and in its dead letter."""
    old = replace(old, replayed_as=job.job_id)
    if old.status == NEEDS_REVIEW:
        old = end(step, old, CANCELLED, error=f"replayed as {job.job_id}: {body.note}")
    else:
        step.table.put(old)
    if old.status != CANCELLED:
        letter = dead_letter.of_replayed(old, job.job_id, at, body.note, body.submitted_by)
        step.dead_letter(letter)
