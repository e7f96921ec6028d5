"""A job as its stream of events shows it: the newest status, and what has changed since."""

from __future__ import annotations

import time
from collections.abc import Iterator

from streams.cli.api_client import CallFailed, NoAnswer
from streams.cli.event_stream import StreamEvent
from streams.cli.operator_command import Answer, Api, part

_AGAIN_SECONDS = 0.3
_SHOWN_WITHIN_SECONDS = 60.0
"""How long a job that was accepted may take to be shown; a restart of everything is shorter."""
_LOG_LINES = 20
_TEXT_CHARS = 1_000
_PURGED = "purged"
"""The status in the end of a job that is not kept any more."""


Texts = dict[str, str]
"""What a job has streamed, by step; the step that streamed last comes last."""


def looks(api: Api, job_id: str, texts: Texts, *, accepted: bool) -> Iterator[Answer | None]:
    """Yield the job after each event, and None once while the API does not answer.

    `texts` follow what it streams. With `accepted`, the job was accepted just now and may not be
    shown yet.

    Raises:
        NoAnswer: the API did not answer even once.
        CallFailed: there is no such job, it does not appear, or it is not kept any more.
    """
    latest, known, gap = time.monotonic() + _SHOWN_WITHIN_SECONDS, accepted, False
    job: Answer = {}
    with api.stream(f"/v1/jobs/{part(job_id)}/events") as stream:
        while True:
            try:
                for event in stream.read():
                    known, gap = True, False
                    apply(job, event)
                    hear(texts, event)
                    if event.data.get("status") == _PURGED:
                        raise _purged(job_id)
                    if job:
                        yield job
                    if event.event == "end":
                        return
            except NoAnswer:
                if not known:
                    raise
                if not gap:
                    yield None
                gap = True
            except CallFailed as error:
                if not accepted or job or error.name != "job-unknown":
                    raise
                if time.monotonic() > latest:
                    raise _not_shown(api, job_id) from None
            time.sleep(_AGAIN_SECONDS)


def hear(texts: Texts, event: StreamEvent) -> None:
    """Change the texts as an event says."""
    match event.event:
        case "token":
            step = event.data["step"]
            texts[step] = texts.pop(step, "") + event.data["text"]
        case "reset":
            texts.pop(event.data["step"], None)
        case "gap":
            texts.clear()


def newest_text(texts: Texts) -> str:
    """The end of what was streamed last, for a terminal."""
    return next(reversed(texts.values()), "")[-_TEXT_CHARS:]


def apply(job: Answer, event: StreamEvent) -> None:
    """Change the job as an event says.

    What comes before the first status is in that status, too: of a job that has ended it comes
    behind all else.
    """
    data = event.data
    match event.event:
        case "status":
            job.clear()
            job.update(data)
        case _ if not job:
            return
        case "progress":
            job["progress"] = data["value"]
        case "step":
            _put(job["steps"], "name", _without(data, "job_id"))
        case "effect":
            _put(job["effects"], "action", _without(data, "of_job"))
        case "log":
            job["log"] = [*job["log"], _without(data, "job_id")][-_LOG_LINES:]


def _put(shown: list[Answer], name: str, item: Answer) -> None:
    """Replace the item of this name, or add it behind the others."""
    for index, each in enumerate(shown):
        if each[name] == item[name]:
            shown[index] = item
            return
    shown.append(item)


def _without(data: Answer, name: str) -> Answer:
    return {key: value for key, value in data.items() if key != name}


def _purged(job_id: str) -> CallFailed:
    return CallFailed(
        f"job {job_id} is not kept any more, so nobody knows here how it ended: a finished job is "
        "kept for `retention.finished_jobs_days` of the topology"
    )


def _not_shown(api: Api, job_id: str) -> CallFailed:
    return CallFailed(
        f"job {job_id} is accepted, but no dispatcher has made it within "
        f"{_SHOWN_WITHIN_SECONDS:.0f} s: check that `tidegate pipeline` runs, then "
        f"`{api.command('jobs', 'watch', job_id)}`"
    )
