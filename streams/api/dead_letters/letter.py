"""What calls do with one dead letter: show it, replay it, discard it, leave it to a person."""

from __future__ import annotations

from collections.abc import Awaitable

from streams.api.dead_letters import by_hand
from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.discards import discarded
from streams.api.dead_letters.job_replay import JobReplay, replayed, unknown_letter
from streams.api.dead_letters.record_replay import replay_records
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.dead_letters.table import dead_letter_json, dead_record_json
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.errors import RecordTooLarge
from streams.http.moments import rfc3339
from streams.serde.records import DeadLetter


async def show(state: AppState, id_: str) -> Json:
    """Return a dead letter with its job, or with the bytes of its record; refuse with 404."""
    letter = await state.query(lambda db: dead_letters.dead_letter(db, id_))
    if letter is None:
        raise unknown_letter(id_)
    shown = await state.query(lambda db: dead_letters.shown_letter(db, letter))
    if letter.kind == "record":
        return shown | dead_record_json(letter)
    job = await state.query(lambda db: jobs.shown_job(db, id_, state.topology))
    return shown | {"job": job}


async def replay(state: AppState, id_: str, wanted: ReplayRequest, key: str | None) -> Json:
    """Run a dead job, or one in review, again as a new job; send a dead record in again.

    Raises:
        Refusal: as of `replayed`; 409, the record is not sent in again, or the key came before
            with another note; 422, the body has a field that is only for jobs.
    """
    letter = await state.query(lambda db: dead_letters.dead_letter(db, id_))
    if letter is None or letter.kind == "job":
        return await replayed(state, JobReplay(id_, wanted, key))
    wanted.require_record()
    return await _record_replayed(state, id_, wanted, key)


async def discard(state: AppState, id_: str, note: str) -> Json:
    """Mark a dead letter about which nothing is left to do: lists leave it out from now on.

    Raises:
        Refusal: 404; 409, Kafka does not take it.
    """
    return await _marked(state, id_, discarded(state, id_, note))


async def manual(
    state: AppState, id_: str, note: str, assignee: str | None, *, anew: bool = True
) -> Json:
    """Make a dead letter the work of a person, who does by hand what it was to do.

    With `anew`, one that is manual work gets another note or assignee.

    Raises:
        Refusal: 404; 409, it was replayed, nothing is left to do, it is manual work already, or
            Kafka does not take it.
    """
    return await _marked(state, id_, by_hand.made_manual(state, id_, note, assignee, anew=anew))


async def finish(state: AppState, id_: str, note: str) -> Json:
    """Mark manual work as done: lists leave its dead letter out from now on.

    Raises:
        Refusal: 404; 409, it is no manual work, or Kafka does not take it.
    """
    return await _marked(state, id_, by_hand.done(state, id_, note))


async def replay_record_once(state: AppState, id_: str, note: str, key: str) -> Json:
    """Send a dead record in again, once for a key.

    Raises:
        Refusal: 404; 409, it is not sent in again.
    """
    return await _record_replayed(state, id_, ReplayRequest(incident_note=note), key)


async def _marked(state: AppState, id_: str, marking: Awaitable[DeadLetter | None]) -> Json:
    try:
        letter = await marking
    except RecordTooLarge as error:
        detail = f"Kafka refuses the dead letter ({error}): see `tidegate topology plan` for dlq"
        raise Refusal(409, "not-taken", detail) from None
    if letter is None:
        raise unknown_letter(id_)
    return await state.query(lambda db: dead_letters.shown_letter(db, letter))


async def _record_replayed(
    state: AppState, id_: str, wanted: ReplayRequest, key: str | None
) -> Json:
    note, again = wanted.incident_note, wanted.again
    mark_id = None if key is None else key.encode(errors="surrogateescape")
    done = await replay_records(state, [id_], note, again=again, mark_id=mark_id)
    for _, reason in done.left_out:
        raise Refusal(409, reason.name, reason.detail)
    if not done.sent:
        raise unknown_letter(id_)
    letter = done.sent[0]
    if letter.note != note:
        told = f"this key belongs to a replay of {id_} with another note: send that, or a new key"
        raise Refusal(409, "key-reused", told)
    return dead_letter_json(letter) | {"sent": _sent(state, letter), "answered": done.answered}


def _sent(state: AppState, letter: DeadLetter) -> Json:
    """Return where the letter went, and the time that its record has for the stage."""
    return {
        "topic": state.topology.letter_input(letter.stage),
        "partition": letter.partition,
        "timestamp": rfc3339(letter.timestamp),
    }
