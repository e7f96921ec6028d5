"""Whether a producer's connection broke or a request timed out, which only librdkafka's log shows.

Then librdkafka sends the unanswered requests again on another connection. The broker may
process the first sending late: after the second one, when the producer's next transaction is open.
To a client without KIP-890 both transactions have the same epoch, so a late commit would end half
of the next transaction. A new producer has a new epoch, and the broker refuses late requests of the
old one.
"""

from __future__ import annotations

from typing import Any

LOG_LEVEL = 6
"""The producer's log level: librdkafka logs a break with requests in flight as "info"."""


class Connections:
    """A producer's `logger`, called from its `poll`; it passes nothing on to a log."""

    def __init__(self) -> None:
        self.broken = False

    def log(self, level: int, form: str, facility: str, client: str, text: str, *_: Any) -> None:
        """Note the break of a connection that was up: one that never came up carried nothing."""
        self.broken |= facility == "REQTMOUT" or (facility == "FAIL" and "in state UP" in text)
