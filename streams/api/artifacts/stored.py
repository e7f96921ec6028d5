"""What jobs have saved, as it lies in the store of artifacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from streams.api.artifacts.store_calls import asked
from streams.api.jobs.known import known_job
from streams.api.operator_state import AppState
from streams.api.payloads import refuse_erased_body
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import get
from streams.api.rows.json_values import Json
from streams.artifacts.reference import Reference, path_of, path_of_job
from streams.artifacts.sealing import MAX_HEAD_BYTES, head_of, opened
from streams.artifacts.store import SETTING, ArtifactGone, ArtifactStore, Entry, StoreUnavailable
from streams.errors import PermanentError, TransientError
from streams.http.moments import rfc3339
from streams.serde.records import Job

_MOST_LISTED = 1_000

T = TypeVar("T")


async def saved_by(state: AppState, job_id: str) -> list[Json]:
    """Return what a job has saved, at most 1,000, in the order of writing.

    Raises:
        Refusal: 404, there is no such job; 503, the store does not answer.
    """
    job = await known_job(state, job_id)
    folder = path_of_job(job.tenant_id, job.job_id)
    return await _asked(state, job, lambda store: _listed(store, folder))


async def content(state: AppState, job_id: str, artifact: str) -> bytes:
    """Return the bytes that a job has saved.

    Raises:
        Refusal: 404, there is no such job or artifact; 410, nothing opens it any more; 503, the
            store does not answer.
    """
    job = await known_job(state, job_id)
    await refuse_erased_body(state, job.tenant_id)
    found = await _content(state, job, artifact)
    await state.audited(state.entry(f"{job_id} {artifact}", job.tenant_id))
    return found


async def _content(state: AppState, job: Job, artifact: str) -> bytes:
    path = path_of(job.tenant_id, job.job_id, artifact)
    try:
        data = await _asked(state, job, lambda store: store.get(path))
        # Its head is not sealed: where it has to lie is what was asked for.
        reference = replace(head_of(data)[0].reference, artifact=artifact, of=job.job_id)
        return await opened(state.keyring, job.tenant_id, reference, data)
    except ArtifactGone:
        all_ = get("jobs", job.job_id, "artifacts")
        raise unknown("artifact", artifact, f"{all_} lists what is there", all_) from None
    except PermanentError as error:
        raise Refusal(410, "artifact-gone", str(error)) from None
    except TransientError as error:
        raise Refusal(503, "artifact-unreadable", str(error)) from None


def _listed(store: ArtifactStore, folder: str) -> list[Json]:
    whole = (each for each in store.entries(folder) if not each.is_unfinished)
    entries = sorted(whole, key=lambda each: (each.written_at, each.path))
    found = ((each, _reference(store, each)) for each in entries[:_MOST_LISTED])
    return [_shown(each, reference) for each, reference in found if reference is not None]


def _reference(store: ArtifactStore, entry: Entry) -> Reference | None:
    """The reference of what lies in a place; None if it is removed meanwhile, or still written."""
    try:
        return head_of(store.get(entry.path, MAX_HEAD_BYTES))[0].reference
    except (ArtifactGone, PermanentError):
        return None


def _shown(entry: Entry, reference: Reference) -> Json:
    return {**reference.as_json(), "written_at": rfc3339(entry.written_at)}


async def _asked(state: AppState, job: Job, call: Callable[[ArtifactStore], T]) -> T:
    store = state.artifacts
    if store is None:
        told = f"this operator knows no place of artifacts: set {SETTING}, as for the workers"
        raise Refusal(503, "artifacts-unset", told)
    try:
        return await asked(store, call, whose=job.tenant_id)
    except StoreUnavailable as error:
        raise Refusal(503, "artifact-unreadable", str(error)) from None
