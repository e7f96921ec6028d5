"""Pages of dead letters."""

from __future__ import annotations

import asyncio

from aiohttp import web

from streams.console.serving.asked_for import Form
from streams.console.serving.asking import Answer, Asking
from streams.console.serving.line_diff import difference
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import as_json, segment

pages = Pages("dead_letters")

_LONGEST = 10_000_000

pages.list("/console/dlq", "/v1/dlq", "Dead letters", "dlq")


@pages.get("/console/dlq/{id}")
async def letter(asking: Asking, request: web.Request) -> Page:
    """One dead letter: why it is here, its job or its record, and what may be done."""
    id_ = request.match_info["id"]
    shown = await asking.get(f"/v1/dlq/{segment(id_)}")
    data = {"letter": shown}
    return Page("dead_letters/letter.html", f"Dead letter {id_}", data, watch=("dlq", "jobs"))


@pages.answer("edit")
async def edited(asking: Asking, form: Form, answer: Answer) -> Page:
    """What an edit of a job's input changes, and the form that replays the job with it."""
    shown = answer.members
    texts = _text(shown.get("before")), _text(shown.get("after"))
    letter = await asking.get_if_there(f"/v1/dlq/{segment(shown.get('job_id', ''))}")
    data = {
        "answer": shown,
        "letter": letter,
        "form": form,
        "typed": form.typed("input:json"),
        "lines": await asyncio.to_thread(difference, *texts),
    }
    return Page("dead_letters/edited.html", "Another input", data)


def _text(value: object) -> str:
    return "" if value is None else as_json(value, _LONGEST)
