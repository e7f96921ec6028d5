"""A digest of the day for each tenant: a line for each item, and a person approves it.

tidegate dev --app examples.nightly_digest.app:app --topology examples/nightly_digest/topology.yaml
"""

from __future__ import annotations

from typing import Any

import structlog

from streams import App, Context, PermanentError, Retry

log = structlog.get_logger(__name__)

DAY = 86_400

app = App("nightly_digest")
app.tool("email:send", key_lifetime=DAY)  # the mail service knows a key again for a day


@app.schedule("0 18 * * mon-fri", tz="Europe/Berlin", tenants="*", window_seconds=600)
@app.job("digest", scopes={"email:send"})
async def digest(ctx: Context) -> str:
    """Gather what happened, ask a person, and send the digest: once for each tenant and day."""
    day = _day(ctx)
    items = await ctx.step("items", list_items, ctx.tenant_id, day)
    lines = await ctx.gather(
        [ctx.child("summarise", item, key=item["id"], priority="batch") for item in items],
        key="lines",
        limit=10,
    )
    letter = {"subject": f"What happened on {day}", "text": "\n".join(lines)}
    decision = await ctx.approval(
        "send",
        prompt=f"Send this digest to {ctx.tenant_id}?",
        effects=[{"tool": "email:send", "key": day, "arguments": letter}],
        timeout=14 * 3600,
    )
    if not decision.approved:
        return f"not sent: {decision.note}"
    letter |= decision.edit or {}
    await ctx.effect("email:send", send_email, key=day, **letter)
    return "sent"


@app.job("summarise", retry=Retry(max_attempts=5, backoff=(10, 60, 600)), scopes=set())
async def summarise(ctx: Context) -> str:
    """One line about one item. It may use no tool."""
    return str(await ctx.step("line", write_line, ctx.input))


def _day(ctx: Context) -> str:
    """The day of the schedule's time; a digest that a person submits names its own."""
    if ctx.scheduled_for is not None:
        return ctx.scheduled_for.date().isoformat()
    if isinstance(ctx.input, dict) and isinstance(ctx.input.get("day"), str):
        return str(ctx.input["day"])
    raise PermanentError('digest: submit it as {"day": "2026-09-21"}')


async def list_items(tenant: str, day: str) -> list[dict[str, str]]:
    """Where a database would be asked; the list is kept, so each run gathers the same jobs."""
    titles = ("The printer is on fire", "No paper in tray 2", "The invoice of May is missing")
    return [{"id": str(n), "title": title} for n, title in enumerate(titles, 1)]


async def write_line(item: dict[str, str]) -> str:
    """Where a language model would be asked: slow, costly, and kept as a step."""
    return f"- {item['title']}"


async def send_email(subject: str, text: str, idempotency_key: str) -> dict[str, Any]:
    """Where the mail service would be called, with the key."""
    log.info("e-mail sent", subject=subject, text=text, idempotency_key=idempotency_key)
    return {"sent": True}
