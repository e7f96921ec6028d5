"""The support desk of the incident: draft a reply, send an e-mail, refund sometimes.

    tidegate dev --app examples.support.app:app --topology examples/support/topology.yaml

With SUPPORT_TOOLS_URL the e-mail and payment services are called there; without it they only
write a line to the log.
"""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import structlog
from pydantic import BaseModel

from streams import App, Context, PermanentError, Retry, RetryAfter, TransientError

log = structlog.get_logger(__name__)

app = App("support")
# The mail service remembers an Idempotency-Key for a day; the payment service remembers none:
# a refund whose answer was lost waits for a person.
app.tool("email:send", key_lifetime=86_400)

_TIMEOUT = aiohttp.ClientTimeout(total=20)


class Ticket(BaseModel):
    id: int | str
    subject: str
    order_id: int | str | None = None


class TicketEvent(BaseModel):
    """The body of a ticket's event, as far as the handlers read it."""

    detail: Ticket


class Order(BaseModel):
    """The input of a refund that is submitted directly."""

    order_id: int | str


@app.job(
    "draft_reply",
    retry=Retry(max_attempts=5, backoff=(10, 30, 120, 600)),
    timeout=300,
    scopes={"email:send"},
)
async def draft_reply(ctx: Context[TicketEvent]) -> dict[str, Any]:
    """Answer a ticket; the draft is made once, the e-mail is sent once."""
    ticket = ctx.input.detail
    draft = await ctx.step("draft", write_draft, ticket.subject)
    await ctx.progress({"pct": 50, "stage": "drafted"})
    sent = await ctx.effect(
        "email:send", send_email, key="reply", ticket_id=str(ticket.id), text=draft
    )
    return {"draft": draft, "sent": sent}


@app.preflight("draft_reply")
async def still_open(ctx: Context) -> bool:
    """A ticket that was solved meanwhile needs no answer."""
    status = ctx.event.attributes.get("status", "") if ctx.event else ""
    return status.upper() not in {"SOLVED", "CLOSED"}


@app.job(
    "refund", retry=Retry(max_attempts=3, backoff=(30, 300)), timeout=60, scopes={"payment:refund"}
)
async def refund(ctx: Context[TicketEvent | Order]) -> dict[str, Any]:
    """Pay an order back; from a ticket, or submitted directly as `{"order_id": ...}`.

    The key guards this job alone. Two tickets about one order are two jobs, and pay it back twice.
    """
    asked = ctx.input.detail if isinstance(ctx.input, TicketEvent) else ctx.input
    order_id = asked.order_id
    if not order_id:
        raise PermanentError("refund: no order_id in the ticket or in the job's input")
    refunded = await ctx.effect("payment:refund", pay_back, key="order", order_id=str(order_id))
    return {"refund": refunded}


@app.job("follow_up", retry=Retry(max_attempts=5, backoff=(10, 60)), scopes={"email:send"})
async def follow_up(ctx: Context[TicketEvent]) -> dict[str, Any]:
    """Write again to a customer who has not answered for four hours.

    The job waits without a slot. A solved ticket ends it: the route of `ticket.solved` cancels.
    """
    ticket = ctx.input.detail
    hours = float(os.environ.get("SUPPORT_FOLLOW_UP_HOURS", "4"))
    await ctx.sleep(hours * 3600)
    text = f"We still wait for your answer about {ticket.subject!r}."
    sent = await ctx.effect(
        "email:send", send_email, key="follow-up", ticket_id=str(ticket.id), text=text
    )
    return {"sent": sent}


async def write_draft(subject: str) -> str:
    """Where a language model would be asked: slow, costly, and kept as a step."""
    return f"Thank you for writing about {subject!r}. We are looking into it."


async def send_email(ticket_id: str, text: str, idempotency_key: str) -> dict[str, Any]:
    """Write to whoever opened the ticket, through the mail service."""
    return await _call("/email", {"ticket_id": ticket_id, "text": text}, idempotency_key)


async def pay_back(order_id: str, idempotency_key: str) -> dict[str, Any]:
    """Refund through the payment service, which ignores the key."""
    return await _call("/refund", {"order_id": order_id}, idempotency_key)


async def _call(path: str, body: dict[str, str], idempotency_key: str) -> dict[str, Any]:
    """One attempt; its errors say what is known, and after a timeout nothing is."""
    base = os.environ.get("SUPPORT_TOOLS_URL")
    if not base:
        log.info("tool called", path=path, idempotency_key=idempotency_key)
        return {"logged": path}
    headers = {"Idempotency-Key": idempotency_key}
    async with (
        aiohttp.ClientSession(base, timeout=_TIMEOUT) as session,
        session.post(path, json=body, headers=headers) as answer,
    ):
        return await _result(path, answer)


async def _result(path: str, answer: aiohttp.ClientResponse) -> dict[str, Any]:
    if answer.status == 429:
        raise RetryAfter(_seconds(answer.headers.get("Retry-After")), f"{path}: too many requests")
    if answer.status == 503:
        raise TransientError(f"{path}: the service is not available")
    if 400 <= answer.status < 500:
        raise PermanentError(f"{path}: refused with {answer.status}")
    # Any other error may have come after the effect: it is not said to have failed.
    answer.raise_for_status()
    result: dict[str, Any] = await answer.json()
    return result


def _seconds(retry_after: str | None) -> float:
    """Seconds of a Retry-After header; one that is absent or a date means a minute."""
    return float(retry_after) if retry_after and retry_after.isdigit() else 60.0
