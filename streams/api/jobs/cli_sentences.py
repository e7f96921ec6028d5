"""What commands that change a job or a dead letter say to people: one sentence each."""

from __future__ import annotations

from streams.cli import tables
from streams.cli.cells import Json, tell
from streams.serde import job_states


def submitted(found: Json) -> None:
    """A job that was accepted just now."""
    if "status" not in found:
        _say(found, "is asked for, and no dispatcher has taken it yet")
        return
    at = found["scheduled_at"] if found["status"] == job_states.SCHEDULED else None
    _say(found, f"is {found['status']}{f', to start at {at}' if at else ''}")


def cancelled(found: Json) -> None:
    """A job that was told to end."""
    if found["status"] == job_states.CANCELLED:
        _say(found, "is cancelled", found["cancel_reason"])
    elif found["cancel_requested"]:
        _say(found, f"is {found['status']} until its handler stops", found["cancel_reason"])
    else:
        _say(found, f"is still {found['status']}")


def settled(found: Json) -> None:
    waiting = [each["action"] for each in found["effects"] if each["settle_after"] is not None]
    more = f"; settle these, too: {', '.join(waiting)}" if waiting else ""
    then = "; replay it to go on" if found["status"] in job_states.IN_DEAD_LETTERS else ""
    _say(found, f"has the answer, and is {found['status']}{more}{then}")


def decided(found: Json) -> None:
    """A job about whose finished steps somebody has decided."""
    still = f"; it waits for {found['diverged']}" if found["diverged"] is not None else ""
    _say(found, f"has the decision, and is {found['status']}{still}")


def routed(found: Json) -> None:
    _say(found, f"is the event's job, and is {found['status']}")


def moved(found: Json) -> None:
    """A job in its new pool, or the result of moving all."""
    if "matched" in found:
        tables.bulk(found, "moved", "movable", "jobs")
    elif found["status"] in job_states.LEASED:
        _say(found, f"still runs in pool {found['pool']}; next it waits in {found['asked_pool']}")
    else:
        _say(found, f"is {found['status']} in pool {found['pool']}")


def replayed(found: Json) -> None:
    """A replay: the new job, the record sent in again, or the result of a bulk replay."""
    if "matched" in found:
        tables.bulk(found, "replayed", "replayable", "dead letters")
    elif "sent" in found:
        to = found["sent"]
        tell(
            f"{found['id']} is sent back to its stage by {to['topic']}, partition {to['partition']}"
        )
    else:
        tell(f"{found['replay_of']} runs again as {found['job_id']}{_of_type(found)}")


def discarded(found: Json) -> None:
    """A dead letter that lists leave out from now on."""
    tell(f"{found['id']} is discarded: {found['discard_note']}")


def manual(found: Json) -> None:
    """A dead letter that is left to a person."""
    whose = f" of {found['assignee']}" if found["assignee"] else ""
    tell(f"{found['id']} is manual work{whose}: {found['manual_note']}")


def done_by_hand(found: Json) -> None:
    """Manual work that is done."""
    tell(f"{found['id']} is done by hand: {found['done_note']}")


def _say(job: Json, what: str, why: str | None = None) -> None:
    because = f": {why}" if why else ""
    tell(f"{job['job_id']}{_of_type(job)} {what}{because}")


def _of_type(job: Json) -> str:
    """The type of a job, if that is known."""
    return f" ({job['type']})" if "type" in job else ""
