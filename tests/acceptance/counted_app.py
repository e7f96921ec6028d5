"""The application of tests of caps and pauses: it notes in a file when a job begins and ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from streams import App, Context

app = App("counted")


def note(what: str) -> None:
    with Path(os.environ["COUNTED_LOG"]).open("a") as log:
        log.write(what + "\n")


@app.job("counted")
async def counted(ctx: Context) -> None:
    note("begins")
    try:
        await asyncio.sleep(0.05)
    finally:
        note("ends")


@app.job("uncounted")
async def uncounted(ctx: Context) -> None:
    """A job that leaves no trace."""
