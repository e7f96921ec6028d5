"""In which order an owner of shared rates grants tokens to partitions that wait for one.

A partition that gets less than it asked for has a place in the line of its bucket, and is told when
to ask again. Until a little later the tokens of those before it are not given to others. One that
has no worker for the start gets what is left over, and no place.
"""

from __future__ import annotations

from streams.limits.buckets import Bucket
from streams.limits.rates import Pace

_PATIENCE_SECONDS = 2.0


class TokenLines:
    """The holders that wait for tokens, by bucket. A restart forgets their order."""

    def __init__(self) -> None:
        self._lines: dict[Bucket, dict[int, float]] = {}  # by holder, until when, in their order

    def share(self, bucket: Bucket, holder: int, asked: int, tokens: int, now: float) -> int:
        """How many of the tokens that are there a holder gets."""
        line = self._line(bucket, now)
        return max(0, min(asked, tokens - self._before(line, holder)))

    def wait(
        self, bucket: Bucket, holder: int, pace: Pace, next_token_at: float, now: float
    ) -> float:
        """Give a holder that got less than it asked for a place in the line; seconds to wait."""
        line = self._line(bucket, now)
        seconds = self.left_over_in(bucket, holder, pace, next_token_at, now)
        line[holder] = now + seconds + _PATIENCE_SECONDS
        self._lines[bucket] = line
        return seconds

    def left_over_in(
        self, bucket: Bucket, holder: int, pace: Pace, next_token_at: float, now: float
    ) -> float:
        """In how many seconds there is a token beyond those of the holders before one."""
        before = self._before(self._line(bucket, now), holder)
        return max(now, next_token_at + before * pace.interval) - now

    def served(self, bucket: Bucket, holder: int) -> None:
        """A holder got a token: it comes last from now on."""
        line = self._lines.get(bucket, {})
        line.pop(holder, None)
        if not line:
            self._lines.pop(bucket, None)

    def _line(self, bucket: Bucket, now: float) -> dict[int, float]:
        line = self._lines.get(bucket, {})
        return {holder: until for holder, until in line.items() if until >= now}

    def _before(self, line: dict[int, float], holder: int) -> int:
        """How many wait before a holder."""
        return list(line).index(holder) if holder in line else len(line)
