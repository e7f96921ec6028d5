from typing import Any

from streams import App, Context

app = App("desk")
app.tool("crm:update", key_lifetime=86_400)
app.tool("warehouse:load", key_lifetime=86_400)


@app.job("summarize")
async def summarize(ctx: Context) -> int:
    """Runs once a ticket has been quiet for a while, with its newest event."""
    ticket = await ctx.json()
    await ctx.effect("crm:update", update, key="summary", text=ticket["text"])
    return len(ctx.events)


@app.job("sync_account")
async def sync_account(ctx: Context) -> None:
    """Runs one at a time for each account."""
    account = await ctx.json()
    await ctx.effect("crm:update", update, key="account", text=account["name"])


@app.job("load_orders")
async def load_orders(ctx: Context) -> int:
    """Loads up to a hundred orders in one call."""
    orders = [await ctx.json(event) for event in ctx.events]
    await ctx.effect("warehouse:load", load, key="orders", orders=orders)
    return len(orders)


async def update(text: str, idempotency_key: str) -> dict[str, Any]:
    return {"text": text}


async def load(orders: list[Any], idempotency_key: str) -> dict[str, Any]:
    return {"loaded": len(orders)}
