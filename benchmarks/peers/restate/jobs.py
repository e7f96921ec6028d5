"""The services: the worker serves `app`, and the front names them in its paths."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import restate

from peers.journal import effect, note

WINDOW = timedelta(days=7)
"""How long a redelivery is dropped."""
KEPT = timedelta(hours=int(os.environ["PEERS_RESTATE_KEPT_HOURS"]))
"""How long the steps of a job can be looked at once it has ended."""
PATIENCE = timedelta(seconds=float(os.environ["PEERS_RESTATE_PATIENCE"]))
"""After so long without progress a job that waits leaves the worker's memory."""

Event = dict[str, Any]
jobs = restate.Service("Jobs", idempotency_retention=WINDOW, journal_retention=KEPT)
case = restate.Workflow(
    "Case",
    idempotency_retention=WINDOW,
    journal_retention=KEPT,
    inactivity_timeout=PATIENCE,
)


async def _plain(ctx: restate.Context, event: Event) -> None:
    note("start", event["id"])
    note("end", event["id"])


async def _effect(ctx: restate.Context, event: Event) -> None:
    note("start", event["id"])
    await ctx.run_typed("effect", effect, event_id=event["id"])
    note("end", event["id"])


async def _fan(ctx: restate.Context, event: Event) -> None:
    note("start", event["id"])
    names = (f"{event['id']}/{number}" for number in range(event["data"]["jobs"]))
    await restate.gather(*(ctx.service_call(plain, {"id": name}) for name in names))
    note("end", event["id"])


async def _wait(ctx: restate.WorkflowContext, event: Event) -> None:
    note("start", event["id"])
    await ctx.promise("answer").value()
    note("woke", event["id"])
    note("end", event["id"])


async def _answered(ctx: restate.WorkflowSharedContext, event: Event) -> None:
    await ctx.promise("answer").resolve(event["id"])


plain: Any = jobs.handler("plain")(_plain)
jobs.handler("effect")(_effect)
jobs.handler("fan")(_fan)
case.main("run")(_wait)
case.handler("answered")(_answered)
app = restate.app(services=[jobs, case])
