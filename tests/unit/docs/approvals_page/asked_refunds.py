from typing import Any

from streams import App, Context

app = App("support")
app.tool("stripe:refund", key_lifetime=86_400)
app.tool("email:send", key_lifetime=86_400)


@app.job("refund")
async def refund(ctx: Context) -> str:
    """Ask before money moves; refund what was approved."""
    order = {"charge": ctx.input["charge"], "amount": ctx.input["amount"]}
    decision = await ctx.approval(
        "refund",
        prompt=f"Refund {order['amount']} cents of {order['charge']}?",
        effects=[{"tool": "stripe:refund", "key": order["charge"], "arguments": order}],
        timeout=24 * 3600,
    )
    if not decision.approved:
        return f"not refunded: {decision.note}"
    order |= decision.edit or {}
    await ctx.effect("stripe:refund", refund_charge, key=order["charge"], **order)
    return f"refunded {order['amount']}"


@app.job("answer")
async def answer(ctx: Context) -> None:
    """It just answers: its route says that a person approves each effect."""
    text = f"We looked into {ctx.input['ticket']}."
    await ctx.effect("email:send", send, key="answer", to=ctx.input["to"], text=text)


async def refund_charge(charge: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    return {"refunded": amount}


async def send(to: str, text: str, idempotency_key: str) -> dict[str, Any]:
    return {"sent_to": to}
