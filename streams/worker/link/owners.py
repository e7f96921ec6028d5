"""Which connection leads to the owner of each partition: the newest announcement counts."""

from __future__ import annotations

from collections.abc import Collection

from streams.worker.link.contract import Connection


class Owners:
    """The announcements of all connections. It is not thread-safe."""

    def __init__(self) -> None:
        # By partition, the connections that announce it, the newest last.
        self._announced: dict[int, dict[Connection, None]] = {}

    def of(self, partition: int) -> Connection | None:
        """The connection to a partition's owner, if there is one."""
        return next(reversed(self._announced.get(partition, {})), None)

    def partitions(self) -> list[int]:
        """The partitions that have an owner now."""
        return list(self._announced)

    def announce(self, connection: Connection, partitions: Collection[int]) -> list[int]:
        """A connection has these partitions now, and no others; one that is gone has none.

        Returns those that have another owner now than before, or none, and those that it did not
        have a moment ago: what their owner does not know yet is to be sent.
        """
        changed = [
            partition
            for partition in list(self._announced)
            if partition not in partitions and self._take(partition, connection)
        ]
        for partition in sorted(partitions):
            known = self._announced.setdefault(partition, {})
            if connection not in known:
                known[connection] = None
                changed.append(partition)
        return changed

    def _take(self, partition: int, connection: Connection) -> bool:
        """Forget an announcement; whether the partition has lost its owner by that."""
        was_owner = self.of(partition) is connection
        known = self._announced[partition]
        known.pop(connection, None)
        if not known:
            del self._announced[partition]
        return was_owner
