"""Reads `events` on from some offsets, as committed, for as long as somebody wants more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from streams.errors import PoisonRecord
from streams.event_reader.scan import Found, found_in, read_on
from streams.event_reader.selection import Selection
from streams.event_reader.span import EVENTS
from streams.kafka.tail import PEOPLES_SECONDS, Tail
from streams.settings import Settings


def follow(settings: Settings, offsets: Mapping[int, int], selection: Selection) -> Iterator[Found]:
    """Yield selected events as they come; records that cannot be read are left out.

    It waits for brokers that are away.

    Raises:
        KafkaUnavailable: the topic must not be read, or is not there; what comes next was purged or
            is damaged.
    """
    with Tail(settings, "events-reader", rest=PEOPLES_SECONDS) as tail:
        tail.begin({(EVENTS, number): at for number, at in offsets.items()})
        while True:
            for message in read_on(tail):
                with suppress(PoisonRecord):
                    found = found_in(message)
                    if selection.has(found.event, found.at):
                        yield found
