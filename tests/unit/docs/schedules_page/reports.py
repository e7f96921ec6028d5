from typing import Any

from streams import App, Context

app = App("reports")
app.tool("email:send", key_lifetime=86_400)


@app.schedule("0 9 * * mon-fri", tz="Europe/Berlin", overlap="skip")
@app.job("daily_report")
async def daily_report(ctx: Context) -> str:
    """Send each tenant's report of the day on working days at nine in Berlin."""
    assert ctx.scheduled_for is not None
    day = ctx.scheduled_for.date().isoformat()
    await ctx.effect("email:send", send, key=day, text=f"Report of {day} for {ctx.tenant_id}")
    return day


@app.job("sync")
async def sync(ctx: Context) -> None:
    """Copy what has changed since the last time."""


app.schedule(every_seconds=21_600, job="sync", tenant="acme", window_seconds=600)
app.schedule("0 3 * * sun", job="sync", id="deep_sync", tenant="acme", input={"deep": True})


async def send(text: str, idempotency_key: str) -> dict[str, Any]:
    return {"sent": True}
