"""The first page, and the pages that lead anywhere: keys, and finding by id."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from streams.console.overview.finding import page_of_id
from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.http.moments import milliseconds
from streams.serde import job_states

pages = Pages("overview")

_PLOTS = (
    ("Events a minute", "/console/events", ("events", "duplicates")),
    ("Jobs that ended", "/console/jobs", (job_states.SUCCEEDED, job_states.FAILED)),
    ("Outgoing webhooks", "/console/endpoints", ("delivered", "failed_attempts")),
    ("Dead letters", "/console/causes", ("dead_letters",)),
)
_WATCHED = ("events", "jobs", "dlq", "approvals", "quarantine", "deliveries")


@pages.get("/console")
async def overview(asking: Asking, request: web.Request) -> Page:
    """What needs somebody, the flow, and the last hour."""
    found = await asking.get("/v1/overview")
    last_hour = (await asking.get("/v1/overview/minutes"))["minutes"]
    data = {"overview": found, "plots": list(_plots(last_hour)), "since": last_hour["since"]}
    return Page("overview/overview.html", "Overview", data, watch=_WATCHED)


@pages.get("/console/keys")
async def keys(asking: Asking, request: web.Request) -> Page:
    """The keys of the keyboard."""
    return Page("overview/keys.html", "Keys")


@pages.get("/console/find")
async def find(asking: Asking, request: web.Request) -> Page | web.Response:
    """Go to whatever has an id."""
    asked = request.query.get("q", "").strip()
    path = page_of_id(asked)
    if path is None:
        return Page("overview/not_found.html", "Not found", {"asked": asked})
    return web.Response(status=303, headers={"Location": path})


def _plots(minutes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each plot shows: points for the picture, and their sums for a text."""
    series, begin = minutes["series"], milliseconds(minutes["since"]) // 1000
    made = []
    for title, page, names in _PLOTS:
        shown = [{"label": name.replace("_", " "), "values": series[name]} for name in names]
        times = [begin + 60 * each for each in range(len(series[names[0]]))]
        points = orjson.dumps({"times": times, "series": shown}).decode()
        sums = {each["label"]: sum(each["values"]) for each in shown}
        made.append({"title": title, "page": page, "points": points, "sums": sums})
    return made
