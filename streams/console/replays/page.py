"""Pages of replays of events."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("replays")

pages.list("/console/replays", "/v1/replays", "Replays", "replays")


@pages.get("/console/replays/{replay_id}")
async def replay(asking: Asking, request: web.Request) -> Page:
    """One replay: what was asked, and how far it is."""
    replay_id = request.match_info["replay_id"]
    shown = await asking.get(f"/v1/replays/{segment(replay_id)}")
    data = {"replay": shown}
    return Page("replays/replay.html", f"Replay {replay_id}", data, watch=("replays",))
