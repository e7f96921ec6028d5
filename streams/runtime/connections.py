"""Whether a producer's connection broke, which librdkafka tells in its log alone.

It sends what was on the way again, on another connection, and the broker may get to the first
sending as well: after the second, when the producer's next transaction is open. To a client
without KIP-890 both transactions have the same epoch, so a late commit would end half of the next
one. A new producer has a new epoch, at which the broker refuses what comes late.
"""

from __future__ import annotations

from typing import Any

LOG_LEVEL = 6
"""Of the producer that is listened to: a connection that breaks with requests on it is "info"."""


class Connections:
    """A producer's `logger`, called from its `poll`; nothing is passed on to a log."""

    def __init__(self) -> None:
        self.broken = False

    def log(self, level: int, form: str, facility: str, client: str, text: str, *_: Any) -> None:
        """Note a connection that was up: one that does not come about has carried nothing."""
        self.broken |= facility == "FAIL" and "in state UP" in text
