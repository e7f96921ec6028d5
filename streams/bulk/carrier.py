"""Carries the bulk acts: knows what is asked on `bulk`, and deals with what this process owns.

A process that has lost an act without knowing it does no harm: the commands that it sends have the
ids of those that its heir sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from streams.bulk.act import TOPIC
from streams.bulk.journal import Journal
from streams.bulk.owned import OwnedActs
from streams.bulk.working import Deal, Hands, Working
from streams.kafka.carrier import Carrier
from streams.kafka.clients import AwaitedProducer
from streams.serde import ids
from streams.settings import Settings


def carrier(
    settings: Settings,
    partitions: int,
    producer: AwaitedProducer,
    deal: Deal,
    ready: Callable[[], bool],
) -> Carrier:
    """Return the carrier of a process; it deals with items on the event loop that is running."""
    loop = asyncio.get_running_loop()

    def start(working: Working) -> None:
        asyncio.run_coroutine_threadsafe(working.run(), loop)

    def owned() -> OwnedActs:
        author = ids.new_id(settings.instance)
        journal = Journal(producer, partitions, author)
        return OwnedActs(author, partial(Working, Hands(deal, journal.write)), start)

    return Carrier(settings, TOPIC, owned, ready)
