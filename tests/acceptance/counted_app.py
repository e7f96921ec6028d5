"""The application of test_shared_caps.py: it notes in a file when each job begins and ends."""

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
