"""Pages of approvals."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("approvals")

pages.list("/console/approvals", "/v1/approvals", "Approvals", "approvals")


@pages.get("/console/approvals/{approval_id}")
async def approval(asking: Asking, request: web.Request) -> Page:
    """One approval: the prompt, the proposed effects, the votes, and the two answers."""
    approval_id = request.match_info["approval_id"]
    shown = await asking.get(f"/v1/approvals/{segment(approval_id)}")
    data = {"approval": shown}
    return Page("approvals/approval.html", f"Approval {approval_id}", data, watch=("approvals",))
