from typing import Annotated, Any

from pydantic import BaseModel, Field

from streams import App, Context

app = App("refunds", version="7")


class Refund(BaseModel):
    order_id: str
    cents: Annotated[int, Field(gt=0)]
    reason: str = ""


class Refunded(BaseModel):
    order_id: str
    receipt: str


@app.job("refund", scopes={"payment:refund"})
async def refund(ctx: Context[Refund]) -> Refunded:
    wanted = ctx.input  # a Refund, for mypy too
    paid = await ctx.effect("payment:refund", pay_back, key="order", cents=wanted.cents)
    return Refunded(order_id=wanted.order_id, receipt=paid["receipt"])


@app.preflight("refund")
async def is_worth_it(ctx: Context[Refund]) -> bool:
    return ctx.input.cents >= 100


async def pay_back(cents: int, idempotency_key: str) -> dict[str, Any]:
    return {"receipt": idempotency_key}  # of one call of your payment service
