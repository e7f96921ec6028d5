import time
from typing import Any

import structlog

from streams import App, Context, RetryAfter
from streams.middleware import (
    EffectCall,
    GoOn,
    GoOnWithEffect,
    Middleware,
    Run,
    RunLog,
    RunResult,
)

log = structlog.get_logger()


class Maintenance(Middleware):
    """While it is on, no run begins, and each job comes back in a minute."""

    def __init__(self) -> None:
        self.is_on = False

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        if self.is_on:
            raise RetryAfter(60, "the shop is being moved")
        return await go_on()


class SlowEffects(Middleware):
    """Logs each effect that takes longer than some seconds, its claim included."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        began = time.monotonic()
        try:
            return await go_on()
        finally:
            took = time.monotonic() - began
            if took > self.seconds:
                log.warning("slow effect", action=effect.action, tenant=effect.tenant_id)


app = App("shop")
maintenance = Maintenance()
app.middleware.add(maintenance, before=RunLog)
app.middleware.add(SlowEffects(2))


@app.job("invoice")
async def invoice(ctx: Context) -> str:
    sent: str = await ctx.effect("email:send", send, key="invoice", to=ctx.input["to"])
    return sent


async def send(to: str, idempotency_key: str) -> str:
    return f"sent to {to}"
