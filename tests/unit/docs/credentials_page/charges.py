from typing import Any

from streams import App, Context

app = App("charges")
app.tool("payment:charge", key_lifetime=86_400)  # it knows a key again for a day


@app.job("charge_order", timeout=60)
async def charge_order(ctx: Context) -> Any:
    key = await ctx.credentials("payments")

    async def charge(order_id: str, cents: int, idempotency_key: str) -> Any:
        answer = await ctx.http.post(
            f"{ctx.input['service']}/charges",
            json={"order": order_id, "cents": cents},
            headers={"Authorization": f"Bearer {key}"},
        )
        answer.raise_for_status()
        return await answer.json()

    return await ctx.effect(
        "payment:charge", charge, key="order", order_id=ctx.input["order"], cents=ctx.input["cents"]
    )
