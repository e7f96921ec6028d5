"""Settlements: a person records the outcome of an effect that no run could record."""

from __future__ import annotations

from streams.api.decisions import decided, first_decision
from streams.api.effects.settle_request import SettleRequest
from streams.api.effects.table import effect, effect_alone, shared_effect
from streams.api.jobs.known import commanded, known_job, shown_job
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import known_tenant
from streams.serde.effect_states import UNSETTLED
from streams.serde.records import Job, LedgerEntry, Settle


async def settle(state: AppState, job_id: str, action: str, wanted: SettleRequest) -> Json:
    """Settle an effect of a job in review, or of one that has ended (for its replay).

    Return the job. One in review continues once all its effects are settled.

    Raises:
        Refusal: 404, there is no such job or effect; 409, its outcome is known, or a run may still
            record it.
    """
    tenant_id = (await known_job(state, job_id)).tenant_id
    decision = await first_decision(state, tenant_id, "jobs", "ledger")
    if decision is None:
        job = await _current(state, job_id)
        entry = await _known(state, job, action)
        command = wanted.command(entry, state.principal.id)
        if _is_settled(entry, command):
            return await shown_job(state, job_id)
        decision = await decided(state, tenant_id, job_id, command, "jobs", "ledger")
    return await commanded(state, job_id, decision)


async def settle_shared(
    state: AppState, tenant_id: str, action: str, wanted: SettleRequest
) -> Json:
    """Settle an effect that counts beyond its job; the jobs that wait for it go on.

    Raises:
        Refusal: 404, there is no such tenant or effect; 409, its outcome is known.
    """
    await known_tenant(state, tenant_id)
    decision = await first_decision(state, tenant_id, "ledger")
    entry = await _known_shared(state, tenant_id, action)
    if decision is None:
        command = wanted.command(entry, state.principal.id)
        if _is_settled(entry, command):
            return effect_alone(entry) | {"answered": True}
        decision = await decided(state, tenant_id, entry.job_id, command, "ledger")
    found = await state.query(lambda db: shared_effect(db, tenant_id, action))
    return effect_alone(found or entry) | decision.json()


def _is_settled(entry: LedgerEntry, command: Settle) -> bool:
    """Return whether somebody said the same before.

    Raises:
        Refusal: 409, the outcome is known.
    """
    same = (entry.status, entry.result) == (command.status, command.result)
    if entry.settled_by and same:
        return True
    if entry.status not in UNSETTLED:
        settled = f"effect {entry.action} is {entry.status}: its outcome is already known"
        raise Refusal(409, "already-settled", settled)
    return False


async def _current(state: AppState, job_id: str) -> Job:
    """Return the job, once the read model shows it and its effects as they are now."""
    home = state.home((await known_job(state, job_id)).tenant_id)
    await state.read_barrier(("jobs", home), ("ledger", home))
    return await known_job(state, job_id)


async def _known(state: AppState, job: Job, action: str) -> LedgerEntry:
    """Return the effect as the ledger has it; refuse with 404 if there is none."""
    entry = await state.query(lambda db: effect(db, job, action))
    if entry is None:
        its_job = get("jobs", job.job_id)
        raise unknown("effect", action, f"{its_job} lists them", its_job)
    return entry


async def _known_shared(state: AppState, tenant_id: str, action: str) -> LedgerEntry:
    """Return the shared effect as the ledger has it now; refuse with 404 if there is none."""
    await state.read_barrier(("ledger", state.home(tenant_id)))
    entry = await state.query(lambda db: shared_effect(db, tenant_id, action))
    if entry is None:
        all_ = get("effects")
        raise unknown("effect", action, f"{all_} lists them", all_)
    return entry
