"""The application that `tidegate dev` runs if it is given none."""

from __future__ import annotations

from typing import Any

import structlog

from streams import App, Context

log = structlog.get_logger(__name__)
app = App("sample")


@app.job("draft_reply", timeout=60)
async def draft_reply(ctx: Context) -> dict[str, Any]:
    """Draft an answer to a ticket, and send it: here into the log."""
    ticket = await ctx.json()
    draft = await ctx.step("draft", write_draft, ticket["detail"]["subject"])
    await ctx.progress({"pct": 50})
    await ctx.effect("email:send", send_email, key="reply", text=draft)
    return {"draft": draft}


async def write_draft(subject: str) -> str:
    """Stands for a call of a model."""
    return f"Thank you for writing about {subject!r}. We are on it."


async def send_email(text: str, idempotency_key: str) -> dict[str, str]:
    """Stands for a mail service, which recognises a repetition by the key."""
    log.info("e-mail sent", text=text, idempotency_key=idempotency_key)
    return {"sent": "yes"}
