"""The Procrastinate application: its worker imports it, and so does the front."""

from __future__ import annotations

import os
from typing import Any

from procrastinate import App, JobContext, PsycopgConnector

from peers.journal import effect, note

STALLED_SECONDS = int(os.environ["PEERS_PROCRASTINATE_STALLED"])
"""Jobs of a worker without a heartbeat for so long run again; its heartbeat is a third of it."""

_CONNECTIONS = int(os.environ["PEERS_PROCRASTINATE_CONNECTIONS"])

app = App(
    connector=PsycopgConnector(
        conninfo=os.environ["PEERS_POSTGRES"], min_size=_CONNECTIONS, max_size=_CONNECTIONS
    )
)


async def _plain(event_id: str, body: str) -> None:
    note("start", event_id)
    note("end", event_id)


async def _effect(event_id: str, body: str) -> None:
    note("start", event_id)
    await effect(event_id)
    note("end", event_id)


async def _retry_stalled_jobs(context: JobContext, timestamp: int) -> None:
    """The periodic task of the page "Retry stalled jobs" of the documentation."""
    manager = app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
        await manager.retry_job(job)


plain: Any = app.task(name="plain")(_plain)
with_effect: Any = app.task(name="effect")(_effect)
retry_stalled_jobs: Any = app.periodic(cron="* * * * * */5")(
    app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs", pass_context=True)(
        _retry_stalled_jobs
    )
)
