"""Actions on dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from streams import user_json
from streams.api.bulk.action import Action, Dealt, Doing, Row
from streams.api.bulk.filters import Selecting, condition
from streams.api.dead_letters import letter as letters
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.eligibility import unfit
from streams.api.dead_letters.job_replay import JobReplay, known_job, replayed
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.fields import Body, Name, Writable, validated
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.serde.codec import DEAD_LETTER, JOB
from streams.topology.model import Topology


class LetterFilter(Selecting):
    """Which dead letters; no action on them selects one that was discarded, or done by hand."""

    kind: Literal["job", "record"] | None = None
    type: Name | None = None
    stage: Name | None = None
    reason: Name | None = None
    topic: Name | None = None
    error: Name | None = None
    cause: Name | None = None


class ManualFilter(LetterFilter):
    """Which letters that are manual work."""

    assignee: Name | None = None


class ManualParams(Body):
    """Who is to do by hand what the letters' jobs or records were to do."""

    assignee: Name | None = None


class EditParams(Body):
    """What is changed in the input of each job: a JSON merge patch (RFC 7396)."""

    patch: dict[str, Writable]


_OPEN = replace(dead_letters.LISTING, where="discarded = 0 AND manual = 0", defaults={})
_condition = condition(_OPEN, "id", "at")
_manual_condition = condition(replace(_OPEN, where="manual = 1"), "id", "at")
_JOB = "(SELECT record FROM jobs WHERE job_id = dead_letters.id)"
_JOB_IS_THERE = "EXISTS (SELECT 1 FROM jobs WHERE job_id = dead_letters.id)"


async def _replay(state: AppState, doing: Doing) -> Dealt:
    found = await state.query(lambda db: dead_letters.dead_letter(db, doing.id))
    if found is not None and found.kind == "record":
        sent = await letters.replay_record_once(state, doing.id, doing.note, doing.key)
        _require_taken(sent)
        return Dealt(seen=sent["answered"])
    wanted = ReplayRequest(incident_note=doing.note)
    shown = await replayed(state, JobReplay(doing.id, wanted, doing.key))
    return Dealt(made=shown["job_id"], seen=shown.get("answered", True))


def _require_taken(sent: Json) -> None:
    """Check that a stage did not refuse a record; nothing is known of one that it has not read.

    Raises:
        Refusal: 409, it is dead again, or something newer was read.
    """
    outcome = sent["replay_outcome"]
    if outcome not in (None, "taken"):
        raise Refusal(409, f"replay-{outcome}", f"{sent['reason']}: {sent['detail']}")


async def _discard(state: AppState, doing: Doing) -> Dealt:
    await letters.discard(state, doing.id, doing.note)
    return Dealt()


async def _manual(state: AppState, doing: Doing) -> Dealt:
    assert isinstance(doing.params, ManualParams)  # noqa: S101  validated as such
    await letters.manual(state, doing.id, doing.note, doing.params.assignee, anew=False)
    return Dealt()


async def _done(state: AppState, doing: Doing) -> Dealt:
    await letters.finish(state, doing.id, doing.note)
    return Dealt()


async def _edit(state: AppState, doing: Doing) -> Dealt:
    assert isinstance(doing.params, EditParams)  # noqa: S101  validated as such
    job = await known_job(state, doing.id)
    edited = merged(user_json.read(job.input), doing.params.patch)
    wanted = validated({"incident_note": doing.note, "input": edited}, ReplayRequest)
    shown = await replayed(state, JobReplay(doing.id, wanted, doing.key))
    return Dealt(made=shown["job_id"], seen=shown.get("answered", True))


def merged(value: Any, patch: Any) -> Any:
    """Return a JSON value with a merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        if each is None:
            kept.pop(name, None)
        else:
            kept[name] = merged(kept.get(name), each)
    return kept


def _replayed(_: Topology, __: Any, row: Row) -> str | None:
    return None if row.columns[0] else "already_replayed"


def _not_editable(_: Topology, __: Any, row: Row) -> str | None:
    kind, is_open, record = row.columns
    if not is_open:
        return "already_replayed"
    if kind != "job":
        return "is_record"
    if record is None:
        return "job_purged"
    return None if JOB.decode(record).event is None else "no_input"


def _not_replayable(topology: Topology, _: Any, row: Row) -> str | None:
    kind, is_open, has_job, record = row.columns
    if not is_open:
        return "already_replayed"
    if kind == "job":
        return None if has_job else "job_purged"
    why = unfit(DEAD_LETTER.decode(record), topology, False)
    return None if why is None else why.name.replace("-", "_")


REPLAY = Action(
    name="dead_letters.replay",
    table=dead_letters.TABLE,
    order="place",
    columns=f"id, tenant_id, kind, {dead_letters.UNREPLAYED}, {_JOB_IS_THERE}, "
    "CASE kind WHEN 'record' THEN record END",
    filter=LetterFilter,
    condition=_condition,
    excludes=_not_replayable,
    deal=_replay,
    beside=("jobs",),
)
EDIT = Action(
    name="dead_letters.edit",
    table=dead_letters.TABLE,
    order="place",
    columns=f"id, tenant_id, kind, {dead_letters.UNREPLAYED}, {_JOB}",
    filter=LetterFilter,
    condition=_condition,
    excludes=_not_editable,
    deal=_edit,
    params=EditParams,
    beside=("jobs",),
)
DISCARD = Action(
    name="dead_letters.discard",
    table=dead_letters.TABLE,
    order="place",
    columns="id, tenant_id",
    filter=LetterFilter,
    condition=_condition,
    excludes=lambda *_: None,
    deal=_discard,
)
MANUAL = Action(
    name="dead_letters.manual",
    table=dead_letters.TABLE,
    order="place",
    columns=f"id, tenant_id, {dead_letters.UNREPLAYED}",
    filter=LetterFilter,
    condition=_condition,
    excludes=_replayed,
    deal=_manual,
    params=ManualParams,
)
DONE = Action(
    name="dead_letters.done",
    table=dead_letters.TABLE,
    order="place",
    columns="id, tenant_id",
    filter=ManualFilter,
    condition=_manual_condition,
    excludes=lambda *_: None,
    deal=_done,
)
