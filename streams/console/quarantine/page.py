"""Pages of the quarantine."""

from __future__ import annotations

import re

from aiohttp import web

from streams.console.serving.asked_for import Form
from streams.console.serving.asking import JSON, Answer, Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("quarantine")

_PREVIEW = re.compile(r"(/v1/quarantine/[^/?]+)/preview")

pages.list("/console/quarantine", "/v1/quarantine", "Quarantine", "quarantine")


@pages.get("/console/quarantine/{id}")
async def entry(asking: Asking, request: web.Request) -> Page:
    """One body: why it is here, and its release."""
    id_ = request.match_info["id"]
    shown = await asking.get(f"/v1/quarantine/{segment(id_)}")
    data = {"entry": shown, **await _source(asking, shown)}
    return Page("quarantine/entry.html", f"Body {id_}", data, watch=("quarantine",))


@pages.answer("mapping")
async def tried(asking: Asking, form: Form, answer: Answer) -> Page:
    """What a mapping makes of a body, and the form that gives it to the body's source."""
    tried_on = _PREVIEW.fullmatch(form.target)
    entry = {} if tried_on is None else await asking.get_if_there(tried_on[1])
    data = {
        "answer": answer.members,
        "entry": entry,
        "form": form,
        "typed": form.typed("mapping:json"),
        **await _source(asking, entry),
    }
    return Page("quarantine/tried.html", "Try a mapping", data)


async def _source(asking: Asking, entry: JSON) -> JSON:
    """Return the source of a body, with its tag; both are empty if there is none."""
    if not entry:
        return {}
    tenant, name = segment(entry["tenant_id"]), segment(entry["source"])
    source, tag = await asking.tagged_if_there(f"/v1/tenants/{tenant}/sources/{name}")
    return {"source": source, "tag": tag}
