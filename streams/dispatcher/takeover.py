"""Takes a partition over: restores its live jobs as queued or running, part by part."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from streams.dispatcher import live_index
from streams.dispatcher.job_store import JobStore
from streams.dispatcher.run_queue import RunQueue
from streams.runtime.processor import Context

_AT_ONCE = 1_000
"""Jobs between two polls: about 10 ms."""


def take_over(
    run_queue: RunQueue, store: JobStore, ctx: Context, term_seconds: float
) -> Iterator[None]:
    """Place all live jobs; yields after each part.

    Each lease gets a whole term, because its heartbeats went to another process.
    """
    found = live_index.entries(ctx.store("jobs"))
    while _place_part(found, run_queue, store, ctx, term_seconds):
        yield


def _place_part(
    found: Iterator[tuple[str, live_index.Live]],
    run_queue: RunQueue,
    store: JobStore,
    ctx: Context,
    term_seconds: float,
) -> bool:
    now = ctx.monotonic
    count = 0
    with _uncollected():
        for job_id, live in islice(found, _AT_ONCE):
            count += 1
            if live.status == "pending":
                run_queue.put(job_id, live)
            elif live.status == "running":
                confirmed = store.confirmed(job_id, live.epoch)
                run_queue.resume(job_id, live, now, now + term_seconds, confirmed=confirmed)
    return count > 0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection, which would scan thousands of new long-lived objects in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
