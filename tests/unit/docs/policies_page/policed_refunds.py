from streams import App, Context
from streams.middleware import Approve, Deny, EffectCall

app = App("support")
app.tool("stripe:refund", key_lifetime=86_400)


@app.job("refund")
async def refund(ctx: Context) -> str:
    order = await ctx.json() if ctx.event else ctx.input
    await ctx.effect("stripe:refund", pay_back, key=order["charge"], amount=order["amount"])
    return "refunded"


@app.policy
def refunds_are_small(call: EffectCall) -> Deny | Approve | None:
    if call.tool != "stripe:refund":
        return None
    if call.arguments["amount"] > 100_000:
        return Deny("more than 1,000.00")
    return Approve("more than 100.00") if call.arguments["amount"] > 10_000 else None


async def pay_back(amount: int, idempotency_key: str) -> dict[str, int]:
    return {"refunded": amount}
