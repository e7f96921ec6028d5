from typing import Any

from streams import App, Context, WaitTimeout

app = App("support")
app.tool("email:send", key_lifetime=86_400)


@app.job("follow_up")
async def follow_up(ctx: Context) -> str:
    """Ask, and remind after four hours, unless the customer answers."""
    ticket = ctx.input["ticket"]
    await ctx.effect("email:send", send, key="question", ticket=ticket, text="Did it help?")
    came, answer = await ctx.first(
        answer=ctx.wait_for_event({"event_type": "ticket.answered", "subject": ticket}),
        time=ctx.sleep(4 * 3600),
    )
    if came == "time":
        await ctx.effect("email:send", send, key="reminder", ticket=ticket, text="Still there?")
        return "reminded"
    return f"answered: {answer.attributes['text']}"


@app.job("payment")
async def payment(ctx: Context) -> str:
    """Begin to listen before the call that causes the event."""
    order = ctx.input["order"]
    paid = await ctx.listen({"event_type": "invoice.paid", "subject": order}, timeout=86_400)
    await ctx.effect("email:send", send, key="invoice", ticket=order, text="Please pay.")
    try:
        await paid
    except WaitTimeout:
        return "not paid within a day"
    return "paid"


async def send(ticket: str, text: str, idempotency_key: str) -> dict[str, Any]:
    return {"sent_to": ticket}
