"""Faults of the link, put into the product: see `injected_faults.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from unittest.mock import patch

from streams.link.inboxes import Inboxes
from streams.link.owner import Owner
from streams.link.peer import Peer
from streams.runtime.processor import Record
from streams.serde.link.messages import Acked, Order
from streams.worker.link.outbox import Outbox

_HEARTBEAT = b'"kind":"heartbeat"'


def acknowledged_before_the_commit() -> Any:
    """A command is acknowledged as soon as the stage has taken it."""
    take = Owner.take

    def acknowledging(self: Owner, now: int) -> list[Record]:
        taken = take(self, now)
        for record in taken:
            waiting = self._inboxes._in_flight[id(record)]
            self.say(waiting.peer, Acked({waiting.partition: waiting.number}))
        return taken

    return patch.object(Owner, "take", acknowledging)


def zombie_extends_a_term() -> Any:
    """A heartbeat is acknowledged as soon as it was read, unless other commands wait before it."""
    order_read = Owner._order

    def acknowledging(self: Owner, peer: Peer, order: Order) -> None:
        order_read(self, peer, order)
        if all(_HEARTBEAT in waiting.value for waiting in peer.waiting):
            peer.say(Acked({order.partition: order.number}))

    return patch.object(Owner, "_order", acknowledging)


def command_is_lost_at_reconnect() -> Any:
    """What was not acknowledged counts as told when the next owner is there."""
    take = Outbox.take

    def forgetting(self: Outbox, partition: int) -> list[Any]:
        for waiting in take(self, partition):
            if waiting.done is not None:
                waiting.done(None)
        return []

    return patch.object(Outbox, "take", forgetting)


def commands_of_an_abort_are_dropped() -> Any:
    """What a transaction took that was aborted is not processed again."""

    def again(self: Inboxes) -> None:
        self._in_flight.clear()

    return patch.object(Inboxes, "again", again)


def acknowledged_by_connection() -> Any:
    """A commit of one partition acknowledges commands of all partitions of its connections."""
    committed = Owner.committed

    def of_all(self: Owner, records: Sequence[Record], outputs: Sequence[Record]) -> None:
        in_flight = [self._inboxes._in_flight.get(id(record)) for record in records]
        newest: dict[Peer, int] = defaultdict(int)
        for waiting in filter(None, in_flight):
            newest[waiting.peer] = max(newest[waiting.peer], waiting.number)
        committed(self, records, outputs)
        for peer, number in newest.items():
            self.say(peer, Acked(dict.fromkeys(self._owned, number)))

    return patch.object(Owner, "committed", of_all)


def commands_of_a_lost_partition_are_acknowledged() -> Any:
    """An owner whose partition is taken away acknowledges what it has of it."""
    owned = Owner.owned

    def acknowledging(self: Owner, partitions: Collection[int]) -> None:
        for peer in list(self._connections._open):
            for waiting in peer.waiting:
                if waiting.partition not in partitions:
                    self.say(peer, Acked({waiting.partition: waiting.number}))
        owned(self, partitions)

    return patch.object(Owner, "owned", acknowledging)
