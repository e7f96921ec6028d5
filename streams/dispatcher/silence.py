"""For how long a part sends nothing on a topic after the broker refused a record of it."""

from __future__ import annotations

_SECONDS = 30.0


class Silence:
    """The silence of one part on one topic; `now` is in seconds of the monotonic clock."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._until = float("-inf")

    def holds(self, now: float) -> bool:
        """Whether nothing is to be sent now."""
        return now < self._until

    def refused(self, topic: str, now: float) -> None:
        """Be silent for a while, if the refused record was of this topic."""
        if topic == self._topic:
            self._until = now + _SECONDS
