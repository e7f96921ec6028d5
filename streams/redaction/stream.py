"""Takes secrets out of a text that comes in pieces, such as the tokens of a model.

What may be the beginning of a secret is held back until the next pieces show what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streams.redaction.patterns import MOST_HELD
from streams.redaction.secrets import MARK

if TYPE_CHECKING:
    from streams.redaction.redaction import Redaction

_SPACE = re.compile(r"\s")


class StreamRedaction:
    """One text; `feed` each piece in order, and `finish` at its end."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = ""
        self._skips = False

    def feed(self, piece: str) -> str:
        """The part of the text that is known to be without secrets by now; perhaps empty."""
        text = self._held + self._unskipped(piece)
        cut = self._redaction.unfinished(text)
        if len(text) - cut >= MOST_HELD:
            return self._cut_off(text, cut)
        self._held = text[cut:]
        return self._redaction.text(text[:cut])

    def finish(self) -> str:
        """The rest; a piece that is fed after it begins another text."""
        rest, self._held, self._skips = self._held, "", False
        return self._redaction.text(rest)

    def _cut_off(self, text: str, cut: int) -> str:
        """Give up on a secret that does not end: leave it out up to the next space."""
        self._held, self._skips = "", True
        return self._redaction.text(text[:cut]) + MARK

    def _unskipped(self, piece: str) -> str:
        if not self._skips:
            return piece
        space = _SPACE.search(piece)
        if space is None:
            return ""
        self._skips = False
        return piece[space.start() :]
