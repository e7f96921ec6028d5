"""Actions on dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from streams.api.bulk.action import Action, Dealt, Doing, Row
from streams.api.bulk.filters import Selecting, condition
from streams.api.dead_letters import letter as letters
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.eligibility import unfit
from streams.api.dead_letters.job_replay import JobReplay, replayed
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.fields import Name
from streams.api.operator_state import AppState
from streams.serde.codec import DEAD_LETTER
from streams.topology.model import Topology


class LetterFilter(Selecting):
    """Which dead letters; those that were discarded are never selected."""

    kind: Literal["job", "record"] | None = None
    type: Name | None = None
    stage: Name | None = None
    reason: Name | None = None
    topic: Name | None = None
    error: Name | None = None


_condition = condition(replace(dead_letters.LISTING, where="discarded = 0"), "id", "at")
_JOB_IS_THERE = "EXISTS (SELECT 1 FROM jobs WHERE job_id = dead_letters.id)"


async def _replay(state: AppState, doing: Doing) -> Dealt:
    found = await state.query(lambda db: dead_letters.dead_letter(db, doing.id))
    if found is not None and found.kind == "record":
        sent = await letters.replay_record_once(state, doing.id, doing.note, doing.key)
        return Dealt(seen=sent["answered"])
    wanted = ReplayRequest(incident_note=doing.note)
    shown = await replayed(state, JobReplay(doing.id, wanted, doing.key))
    return Dealt(made=shown["job_id"], seen=shown.get("answered", True))


async def _discard(state: AppState, doing: Doing) -> Dealt:
    await letters.discard(state, doing.id, doing.note)
    return Dealt()


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
