"""Faults put back into the product, to prove that the simulation sees them.

Each fault is a fault that the product once had. It names the invariants that it breaks and the
operations that lead to it most often, so that a test finds it within few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from unittest.mock import patch

from support import permit_faults, tree_faults

from simulation import faults_of_limits, faults_of_links, faults_of_people
from simulation.story import Story, draw
from streams import new_jobs
from streams.delivery import step as delivery_step
from streams.delivery.parts.sending import Sending
from streams.dispatcher import failures, history, parking, schedule_jobs, waiting
from streams.dispatcher.groups import Groups
from streams.dispatcher.part import Change
from streams.dispatcher.parts import (
    backlog,
    expiry,
    flow_control,
    replays,
    runs,
    schedules,
    submissions,
    sweep,
    unhandled,
    waits,
    workers,
)
from streams.dispatcher.parts.kept_events import KeptEvents
from streams.dispatcher.run_queue import RunQueue
from streams.dispatcher.shared import Shared
from streams.event_match import read_match
from streams.limits import places
from streams.serde.job_states import RUNNING, WAITING
from streams.serde.run_ends import PARKED


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """`put` is a context in which the product has the fault; `limits` are those of all stories.

    `first` is a seed that is known to find it, so that a test need not play those before it. A
    change of the product may make it a wrong one: then the test plays the others, and takes longer.
    """

    put: Callable[[], Any]
    breaks: tuple[str, ...]
    favour: tuple[str, ...]
    types: tuple[str, ...] = ()
    first: int = 0
    seeds: int = 400
    limits: tuple[int, bool] = (0, False)
    partitions: int = 0

    def stories(self) -> Iterator[Story]:
        """One for each seed, the first of them first."""
        return (self.story((self.first + n) % self.seeds) for n in range(self.seeds))

    def story(self, seed: int) -> Story:
        story = draw(seed, favour=self.favour, types=self.types)
        no_others = {"cap": 0, "shared": 0, "tool_cap": 0, "model_cap": 0, "breaker": 0}
        others = no_others if any(self.limits) else {}
        partitions = {"partitions": self.partitions} if self.partitions else {}
        setup = {**story.setup, **others, **partitions, "limits": self.limits}
        return replace(story, setup=setup)


def _around(owner: Any, name: str, changed: Callable[..., Any]) -> Any:
    """Call `changed(original, *args)` in place of a function."""
    original = getattr(owner, name)
    return patch.object(owner, name, lambda *args, **kw: changed(original, *args, **kw))


@contextmanager
def _both(one: Any, other: Any) -> Iterator[None]:
    with one, other:
        yield


def _submission_judged_by_now() -> Any:
    """A submission that is read again after its window starts the job again."""

    def submit(original: Any, self: Any, step: Any, command: Any, body: Any, at: int) -> None:
        original(self, step, command, body, step.now)

    return _around(submissions.Submissions, "submit", submit)


def _cancel_means_any_life() -> Any:
    """An old cancel ends a later incarnation."""
    return patch.object(submissions, "_is_meant", lambda *_: True)


def _scope_without_birth() -> Any:
    """After a purge an id begins again in its scope of old."""
    return patch.object(
        new_jobs, "scope_of", lambda job_id, incarnation, _: f"{job_id}.{incarnation}"
    )


def _two_live_jobs_a_scope() -> Any:
    """Two replays of one letter run at once."""
    return patch.object(replays, "_check_scope", lambda *_: None)


def _impatient_with_types() -> Any:
    """A type without a worker is buried after seconds."""

    def made(original: Any, self: Any, shared: Any) -> None:
        original(self, shared)
        self.topology = replace(shared.topology, unhandled_ms=10_000)
        self._listening = unhandled.Listening(10)

    return _around(unhandled.UnhandledTypes, "__init__", made)


def _cancel_told_once() -> Any:
    """A worker that was not known when its job was cancelled is never told."""
    return patch.object(workers.Workers, "_answer_listed", lambda *_: None)


@contextmanager
def _loss_is_an_attempt() -> Iterator[None]:
    """What is lost with its worker counts as an attempt, and nobody runs alone."""

    def lost(original: Any, of: Any, why: str, now: int) -> Any:
        return history.noted(of, "lost", why, now)

    with ExitStack() as stack:
        stack.enter_context(_around(history, "lost", lost))
        stack.enter_context(patch.object(history, "is_suspect", lambda _: False))
        given_up = patch.object(history, "is_given_up", lambda j: j.attempts >= j.max_attempts)
        stack.enter_context(given_up)
        yield


def _unrouted_is_forgotten() -> Any:
    """An event that came before its route gets no job when it comes again."""
    return patch.object(KeptEvents, "keep", lambda *_: None)


@contextmanager
def _unread_lease_counts() -> Iterator[None]:
    """A lease that nobody read costs an attempt."""

    lose = failures.lose

    def counted(step: Any, lease: Any, *rest: Any) -> None:
        lease.confirmed = True
        lose(step, lease, *rest)

    with ExitStack() as stack:
        for module in (workers, expiry):
            stack.enter_context(patch.object(module, "lose", counted))
        yield


def _undo_forgets_the_workers() -> Any:
    """A change of a job that is undone stays as it was in the leases."""

    def changed(original: Any, self: Any, change: Change) -> None:
        if change.undone:
            self.queue.changed(change)
        else:
            original(self, change)

    return _around(Shared, "changed", changed)


def _abort_moves_the_sweep() -> Any:
    """A part of the jobs that a sweep went over in an aborted step is never gone over."""
    return patch.object(sweep.Sweep, "_return_to", lambda *_: None)


def _fold_misses_an_end() -> Any:
    """A running job that ends keeps its place under the caps."""

    def leave(original: Any, self: Any, job_id: str, live: Any) -> None:
        if live.status != RUNNING:
            original(self, job_id, live)

    return _around(RunQueue, "_leave", leave)


def _abort_leaves_the_cursor() -> Any:
    """Rows of an endpoint that an aborted step chose are passed by from then on."""

    def give_up(self: Sending, row: Any) -> None:
        self._in_flight.remove(row.delivery_id)

    return patch.object(Sending, "_give_up", give_up)


def _endpoint_not_undone() -> Any:
    """An endpoint's window and circuit stay as an aborted step left them."""

    def follow(self: delivery_step.Step, change: Any) -> None:
        self.shared.endpoint_changed(change)

    return patch.object(delivery_step.Step, "_follow", follow)


def _no_lookback() -> Any:
    """A wait overlooks the events that were read before it."""
    return patch.object(parking.Parking, "_came_before", lambda *_: None)


def _losers_stay() -> Any:
    """The waits that did not win stay open with their timers."""

    def group_over(step: Any, job: Any, wait: Any, left: Any) -> Any:
        parked = wait.group >= 0 and job.status == WAITING
        return waiting._resume(step, job) if parked else job

    return patch.object(waiting, "group_over", group_over)


def _stale_park() -> Any:
    """A park counts whichever run it comes from."""

    def living(original: Any, step: Any, command: Any, run_id: str, **more: Any) -> Any:
        job = step.table.get(command.job_id)
        parks = getattr(command.body, "status", "") == PARKED
        is_leased = job is not None and job.status == RUNNING
        return job if parks and is_leased else original(step, command, run_id, **more)

    return _around(runs, "living", living)


def _read_again_wakes() -> Any:
    """An event that is read again counts as a new one."""

    def takes(job: Any, wait: Any, event: Any) -> bool:
        return (wait.behind or 0) < event.number and read_match(wait.match).takes(event.info)

    return _both(patch.object(parking, "takes", takes), patch.object(waits, "takes", takes))


@contextmanager
def _tick_fires_twice() -> Iterator[None]:
    """A schedule stands where it stood before its time, and its job's id is of this moment."""

    def fire(original: Any, self: Any, step: Any, row: Any) -> Any:
        after = original(self, step, row)
        return replace(after, since=row.since, last=row.last)

    def job_id(_: str, schedule_id: str, generation: int, name: str) -> str:
        return f"job_{schedule_id}.{generation}.{name}.{next(numbers)}"

    numbers = count()
    fires = _around(schedules.Schedules, "_fire", fire)
    with fires, patch.object(schedule_jobs, "scheduled_job_id", job_id):
        yield


def _event_is_not_noted() -> Any:
    """A job that takes another's place counts it, and does not note its event."""

    def noted(original: Any, self: Any, step: Any, place: Any, note: Any) -> Any:
        return original(self, step, place, None)

    return _around(Groups, "noted", noted)


def _group_forgets_who_runs() -> Any:
    """The next job of a value does not wait for the end of the one that runs."""

    def begins(original: Any, self: Any, step: Any, job: Any) -> Any:
        place = self._groups.place(step, job.job_id)
        if place is not None:
            self._groups.set_place(step, job.job_id, replace(place, stays=False))
        return original(self, step, job)

    return _around(flow_control.FlowControl, "begins", begins)


def _call_takes_no_place() -> Any:
    """Whether there is room for a call is looked at, and no place is taken."""
    return patch.object(places, "taken", lambda job, *_: job)


def _models_take_no_place() -> Any:
    """A call of a model is let through and not counted."""

    def taken(original: Any, job: Any, buckets: Any, claim_id: str) -> Any:
        others = [bucket for bucket in buckets if bucket.limit != "per-model"]
        return original(job, others, claim_id)

    return _around(places, "taken", taken)


def _no_report_is_replaced() -> Any:
    """What was published of the backlog stays, though nothing is near a cap any more."""

    def publish(original: Any, self: Any, step: Any, depths: Any) -> None:
        if depths:
            original(self, step, depths)

    return _around(backlog.BacklogReports, "_publish", publish)


INJECTED_FAULTS = {
    "room is asked for once": InjectedFault(
        faults_of_limits.room_is_asked_for_once,
        ("cap",),
        ("submit",),
        ("note", "mail"),
        limits=(1, False),
    ),
    "first runs alone count": InjectedFault(
        faults_of_limits.first_runs_alone_count,
        ("cap",),
        ("submit",),
        ("racer", "note"),
        limits=(1, False),
    ),
    "a restart forgets what was spent": InjectedFault(
        faults_of_limits.restart_forgets_what_was_spent,
        ("rate",),
        ("submit", "flood", "reboot", "crash"),
        ("note", "mail"),
        limits=(0, True),
        first=7,
    ),
    "acknowledged before the commit": InjectedFault(
        faults_of_links.acknowledged_before_the_commit,
        ("acked_lost", "not_dropped"),
        ("deliver", "crash"),
        first=28,
    ),
    "a zombie extends a term": InjectedFault(
        faults_of_links.zombie_extends_a_term,
        ("two_runs", "not_dropped"),
        ("deliver", "usurp"),
        ("slow", "nap"),
        first=43,
    ),
    "a command is lost at reconnect": InjectedFault(
        faults_of_links.command_is_lost_at_reconnect,
        ("acked_lost", "wait_refused", "not_dropped"),
        ("deliver", "snap", "repeat"),
    ),
    "commands of an abort are dropped": InjectedFault(
        faults_of_links.commands_of_an_abort_are_dropped,
        ("acked_lost", "wait_refused", "not_dropped"),
        ("deliver", "abort"),
        first=30,
    ),
    "acknowledged by connection": InjectedFault(
        faults_of_links.acknowledged_by_connection,
        ("acked_lost", "wait_refused", "not_dropped"),
        ("deliver", "snap", "trickle"),
        ("pay", "order", "mail", "slow"),
        partitions=2,
    ),
    "commands of a lost partition are acknowledged": InjectedFault(
        faults_of_links.commands_of_a_lost_partition_are_acknowledged,
        ("acked_lost", "wait_refused", "not_dropped"),
        ("deliver", "move"),
    ),
    "a tick fires twice": InjectedFault(
        _tick_fires_twice,
        ("schedule_twice",),
        ("schedule", "wait"),
        ("note",),
    ),
    "an event of a window is forgotten": InjectedFault(
        _event_is_not_noted,
        ("event_forgotten",),
        ("burst",),
        ("digest", "bulk"),
    ),
    "a group forgets who runs": InjectedFault(
        _group_forgets_who_runs,
        ("two_of_one",),
        ("burst",),
        ("sync",),
    ),
    "a first child before the seal": InjectedFault(
        tree_faults.first_child_before_the_seal,
        ("unsealed",),
        ("deliver",),
        ("tree",),
    ),
    "a call is let through and not counted": InjectedFault(
        _call_takes_no_place,
        ("too_many_calls",),
        ("deliver", "flood"),
        ("mail", "order", "herald"),
    ),
    "a call of a model is not counted": InjectedFault(
        _models_take_no_place,
        ("too_many_calls",),
        ("deliver", "submit"),
        ("mail", "letter"),
        first=92,
    ),
    "a report of the backlog is left": InjectedFault(
        _no_report_is_replaced,
        ("backlog",),
        ("deliver", "submit"),
        ("slow", "nap"),
    ),
    "a child is made twice": InjectedFault(
        tree_faults.child_made_twice,
        ("made_twice", "twin"),
        ("deliver", "regrow", "wait"),
        ("tree",),
    ),
    "a grandchild after a cancel": InjectedFault(
        tree_faults.grandchild_after_cancel,
        ("begun_below", "left_alive"),
        ("deliver", "fell"),
        ("tree",),
    ),
    "an end is not counted": InjectedFault(
        tree_faults.end_not_counted,
        ("uncounted",),
        ("deliver",),
        ("tree",),
    ),
    "an approved digest is not compared": InjectedFault(
        faults_of_people.digest_is_not_compared,
        ("unapproved_call",),
        ("deliver", "decide"),
        ("refund",),
        first=11,
    ),
    "an effect begins before the decision": InjectedFault(
        faults_of_people.pending_is_approved,
        ("unapproved_call",),
        ("deliver",),
        ("refund", "loan"),
    ),
    "a second decision counts": InjectedFault(
        faults_of_people.second_decision_counts,
        ("decision_changed", "wrong_decision"),
        ("deliver", "decide"),
        ("refund", "letter"),
    ),
    "a late decision counts": InjectedFault(
        faults_of_people.late_decision_counts,
        ("wrong_decision",),
        ("deliver", "decide"),
        ("refund", "loan"),
    ),
    "nobody is told of approvals": InjectedFault(
        faults_of_people.nobody_is_told_of_approvals,
        ("untold",),
        ("deliver",),
        ("refund",),
    ),
    "each vote asks": InjectedFault(
        faults_of_people.each_vote_asks,
        ("untold", "unexplained"),
        ("deliver", "decide"),
        ("refund",),
    ),
    "an ended job still asks": InjectedFault(
        faults_of_people.ended_job_still_asks,
        ("approval_left",),
        ("deliver", "decide"),
        ("refund", "letter"),
    ),
    "a cancel by event is forgotten": InjectedFault(
        faults_of_people.cancel_is_forgotten,
        ("cancel_forgotten", "derived"),
        ("herd", "halt"),
        ("chase",),
        first=5,
    ),
    "a divergence is not noticed": InjectedFault(
        faults_of_people.divergence_is_not_noticed,
        ("step_again",),
        ("deliver", "answer", "release"),
        ("novel",),
        first=13,
    ),
    "a shared effect forgets its first caller": InjectedFault(
        faults_of_people.first_caller_is_forgotten,
        ("effect_twice", "done_dropped"),
        ("deliver", "submit"),
        ("herald",),
    ),
    "an earlier event is overlooked": InjectedFault(
        _no_lookback,
        ("answer_missed",),
        ("deliver", "answer"),
        ("patient",),
    ),
    "losers stay": InjectedFault(
        _losers_stay,
        ("both_won",),
        ("deliver", "answer"),
        ("racer",),
        first=11,
    ),
    "a stale park counts": InjectedFault(
        _stale_park,
        ("parked_unasked", "both_won"),
        ("deliver", "answer", "repeat"),
        ("chase",),
        first=32,
    ),
    "an event that is read again counts": InjectedFault(
        _read_again_wakes,
        ("answer_missed",),
        ("deliver", "answer", "reset"),
        ("patient",),
        first=10,
    ),
    "4 submission judged by now": InjectedFault(
        _submission_judged_by_now,
        ("twin",),
        ("submit", "leap", "reset"),
        ("note", "mail"),
        first=36,
    ),
    "4 cancel means any life": InjectedFault(
        _cancel_means_any_life,
        ("cancelled_unasked",),
        ("submit", "cancel", "leap", "reset"),
        ("slow",),
        first=158,
    ),
    "5 scope without birth": InjectedFault(
        _scope_without_birth,
        ("scope_reused", "scope_of_two", "effect_swallowed"),
        ("deliver", "submit", "leap"),
    ),
    "6 two live jobs a scope": InjectedFault(
        _two_live_jobs_a_scope,
        ("two_in_scope", "two_runs"),
        ("deliver", "replay", "cancel"),
        ("killer",),
        first=45,
    ),
    "8 impatient with types": InjectedFault(
        _impatient_with_types,
        ("dead_unread",),
        ("deliver", "wait"),
        ("late",),
    ),
    "9 cancel told once": InjectedFault(
        _cancel_told_once,
        ("cancel_lost",),
        ("deliver", "takeover"),
        ("nap",),
    ),
    "12 loss is an attempt": InjectedFault(
        _loss_is_an_attempt,
        ("buried_early", "stuck"),
        ("deliver", "kill"),
        first=8,
    ),
    "17 unrouted is forgotten": InjectedFault(
        _unrouted_is_forgotten,
        ("no_job",),
        ("deliver", "route"),
        ("note",),
    ),
    "39 undo forgets the workers": InjectedFault(
        _undo_forgets_the_workers,
        ("derived", "undone"),
        ("deliver", "crash", "garbage"),
    ),
    "39 abort moves the sweep": InjectedFault(
        _abort_moves_the_sweep,
        ("undone",),
        ("deliver",),
    ),
    "39 fold misses an end": InjectedFault(
        _fold_misses_an_end,
        ("derived", "undone"),
        ("deliver",),
    ),
    "39 abort leaves the cursor": InjectedFault(
        _abort_leaves_the_cursor,
        ("inconsistent",),
        ("deliver", "endpoint"),
        first=11,
    ),
    "39 endpoint is not undone": InjectedFault(
        _endpoint_not_undone,
        ("undone", "derived"),
        ("deliver", "endpoint"),
    ),
    "18 unread lease counts": InjectedFault(
        _unread_lease_counts,
        ("dead_unread", "buried_early"),
        ("deliver", "stop", "kill"),
        ("crm",),
        first=126,
    ),
    **{
        f"42 {name}": InjectedFault(put, ("overrun", "record_lost"), ("deliver", "takeover"))
        for name, put in permit_faults.FAULTS.items()
    },
}
"""By the number of what was once wrong."""
