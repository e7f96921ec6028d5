from typing import Any

from streams import App, ChildFailed, Context, PermanentError

app = App("billing")
app.tool("email:send", key_lifetime=86_400)


@app.job("close_month")
async def close_month(ctx: Context) -> dict[str, Any]:
    """Send each account its statement, 50 at a time, then write the report."""
    accounts = await ctx.step("accounts", accounts_of, ctx.input["month"])
    await ctx.enqueue("archive", {"month": ctx.input["month"]}, on_parent="abandon")
    jobs = [ctx.child("statement", {"account": each}, key=each) for each in accounts]
    sent = await ctx.gather(jobs, key="statements", limit=50, on_failure="collect", tolerated=1)
    failed = [each.error for each in sent if each.status != "succeeded"]
    report = await ctx.enqueue("report", {"sent": len(sent) - len(failed)})
    return {"report": await report, "failed": failed}


@app.job("statement")
async def statement(ctx: Context) -> str:
    account: str = ctx.input["account"]
    if account.startswith("closed"):
        raise PermanentError(f"{account} has no address")
    await ctx.effect("email:send", send, key="statement", to=account)
    return account


@app.job("report")
async def report(ctx: Context) -> str:
    """Print by a tool that honours no key: if its outcome is unknown, a person decides."""
    await ctx.effect("print", print_out, key="report", sent=ctx.input["sent"])
    return f"{ctx.input['sent']} statements"


@app.job("archive")
async def archive(ctx: Context) -> None:
    await ctx.sleep(3600)


@app.job("refund")
async def refund(ctx: Context) -> str:
    """Let another job decide, and go on if it cannot."""
    try:
        account: str = await ctx.enqueue("statement", ctx.input, wait=True)
    except ChildFailed as error:
        return f"{error.type} failed: {error.error}"
    return account


@app.job("poll")
async def poll(ctx: Context) -> None:
    """Look once an hour without an end: each day begins with a fresh history."""
    for hour in range(24):
        await ctx.step("look", int, hour)
        await ctx.sleep(3600)
    ctx.continue_as_new({"day": ctx.input["day"] + 1})


async def accounts_of(month: str) -> list[str]:
    return ["ann", "bob", "closed"]


async def send(to: str, idempotency_key: str) -> dict[str, Any]:
    return {"sent_to": to}


async def print_out(sent: int, idempotency_key: str) -> dict[str, Any]:
    return {"pages": 1}
