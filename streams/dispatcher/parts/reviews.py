"""Reviews: a person says what became of an effect, and its job goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

import orjson

from streams import ledger
from streams.dispatcher import metrics
from streams.dispatcher.job import is_live
from streams.dispatcher.living_lease import is_held
from streams.dispatcher.part import Part
from streams.dispatcher.review import go_on, known
from streams.dispatcher.scopes import in_scope
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.ledger_entries import get, put
from streams.runtime.part import handles
from streams.serde.effect_scopes import JOB, effect_scope, is_shared, once_per
from streams.serde.effect_states import DONE, FAILED, UNSETTLED
from streams.serde.job_states import NEEDS_REVIEW
from streams.serde.records import Command, Job, LedgerEntry, Settle
from streams.serde.sizes import MAX_VALUE_BYTES


class Reviews(Part):
    """Settles effects whose outcome is unknown."""

    @handles(Settle)
    def settle(self, step: Step, command: Command, body: Settle, at: int) -> None:
        """Record the outcome that a person found out; the job goes on if it can.

        `at` is the time of the command's record, in milliseconds.

        Raises:
            PoisonRecord: the effect cannot be settled, or not yet; nothing was changed.
        """
        if body.status not in (DONE, FAILED):
            raise PoisonRecord("not_supported", f"{body.status!r} is neither done nor failed")
        job, entry = _found(step, command, body)
        settled = _settled(entry, body, step.now)
        if replace(settled, updated_at=entry.updated_at) == entry:
            metrics.TWINS.inc()
            return
        term = self.topology.leases.term_seconds
        if job is None or is_shared(entry.scope):
            _check_shared(step, entry, term, at)
        else:
            _check(entry, job, in_scope(step, job.scope), term, at)
        put(step.ledger, settled)
        if is_shared(settled.scope):
            known(step, settled, decided=True)
        if job is not None:
            go_on(step, job, decided=True)


def _found(step: Step, command: Command, body: Settle) -> tuple[Job | None, LedgerEntry]:
    """The job of a settlement and its effect; a shared effect outlives its jobs (None)."""
    job = step.table.get(command.job_id)
    if job is not None and job.tenant_id != command.tenant_id:
        job = None
    if job is None and body.once_per == JOB:
        raise PoisonRecord("settle_of_unknown", f"no job {command.job_id} of this tenant")
    scope = effect_scope("" if job is None else job.scope, body.once_per)
    entry = get(step.ledger, command.tenant_id, scope, body.action)
    if entry is None:
        whose = f"job {command.job_id}" if body.once_per == JOB else f"tenant {command.tenant_id}"
        raise PoisonRecord("no_such_effect", f"{whose} began no effect {body.action}")
    return job, entry


def _settled(entry: LedgerEntry, body: Settle, now: int) -> LedgerEntry:
    done = body.status == DONE
    return replace(
        entry,
        status=body.status,
        claims=entry.claims if done else 0,
        result=_result(body) if done else None,
        error=None,
        updated_at=now,
        settled_by=body.submitted_by or "unknown",
        note=body.note,
    )


def _check(
    entry: LedgerEntry, job: Job, in_scope: Sequence[Job], term_seconds: float, at: int
) -> None:
    """Refuse a settlement that is impossible at `at`, the time of the command's record.

    A command that is read again must not settle a later claim. `in_scope` are all jobs of the
    effect's scope.
    """
    name = f"effect {entry.action} of job {job.job_id}"
    _require_unsettled(entry, name)
    live = None if job.status == NEEDS_REVIEW else next(filter(is_live, in_scope), None)
    if live is not None:
        raise PoisonRecord(
            "not_in_review",
            f"{name} is {entry.status} and job {live.job_id} of its scope is "
            f"{live.status}: settle it for that job, once that is in needs_review or has ended",
        )
    possible_at = max(ledger.settleable_at(entry, each, term_seconds) for each in in_scope)
    _require_time(name, possible_at, at)


def _check_shared(step: Step, entry: LedgerEntry, term_seconds: float, at: int) -> None:
    """Refuse a settlement of a shared effect that is impossible at `at`.

    Jobs that wait to ask for the effect do not matter: each will ask for what is known then.
    """
    name = f"effect {entry.action} (once per {once_per(entry.scope)})"
    _require_unsettled(entry, name)
    if is_held(step, entry):
        raise PoisonRecord(
            "not_in_review",
            f"{name} is {entry.status} and job {entry.job_id} runs: settle it when that run has "
            "ended without an outcome",
        )
    made_by = step.table.get(entry.job_id)
    _require_time(name, ledger.settleable_at(entry, made_by, term_seconds), at)


def _require_unsettled(entry: LedgerEntry, name: str) -> None:
    if entry.status not in UNSETTLED:
        raise PoisonRecord("already_settled", f"{name} is {entry.status}: nothing is left to say")


def _require_time(name: str, possible_at: int, at: int) -> None:
    """Refuse a settlement while a call of the effect may be under way."""
    if at < possible_at:
        when = datetime.fromtimestamp(possible_at / 1000, UTC).isoformat(timespec="seconds")
        raise PoisonRecord(
            "too_early",
            f"a call of {name} may still be under way: settle it after {when} "
            f"(in {ceil((possible_at - at) / 1000)} s)",
        )


def _result(body: Settle) -> str:
    result = body.result or "null"
    if len(result.encode()) > MAX_VALUE_BYTES:
        raise PoisonRecord(
            "result_too_large", f"a result has {MAX_VALUE_BYTES:,} bytes at most: shorten it"
        )
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError:
        raise PoisonRecord("result_not_json", "a result is JSON, as a run returns it") from None
    return result
