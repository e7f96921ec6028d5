"""Sends the same deliveries to the synchronous handler that Tidegate replaces."""

from __future__ import annotations

import time
from typing import Any

from streams.demo.verdict.figures import before_figures
from streams.demo.world.delivery import Vendor
from streams.demo.world.naive import PATIENCE_SECONDS, NaiveHandler
from streams.demo.world.recorder import Recorder
from streams.demo.world.scenario import Scenario

_CONCURRENCY = 64


async def run_before(scenario: Scenario, *, killed: bool) -> dict[str, Any]:
    """Return the figures; with `killed`, the handler dies in some requests before it answers."""
    recorder = Recorder()
    await recorder.start()
    handler = NaiveHandler(scenario, recorder, killed=killed)
    vendor = Vendor(scenario, [await handler.start()], _CONCURRENCY, patience=PATIENCE_SECONDS)
    began = time.monotonic()
    await vendor.open()
    try:
        await vendor.deliver(scenario.volleys)
    finally:
        await vendor.close()
        await handler.stop()
        await recorder.stop()
    return before_figures(scenario.deliveries, recorder.calls, time.monotonic() - began)
