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

_LONG, _SHARE = 2_048, 8
"""So much that is held back is looked at again once an eighth of it is new: else a long word in
small pieces would take the square of its time."""

_SPACE = re.compile(r"\s")


class StreamRedaction:
    """One text; `feed` each piece in order, and `finish` at its end."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._held = ""
        self._unseen = 0
        self._skips = False

    def feed(self, piece: str) -> str:
        """The part of the text that is known to be without secrets by now; perhaps empty."""
        piece = self._unskipped(piece)
        text = self._held + piece
        self._unseen += len(piece)
        if len(text) > _LONG and self._unseen * _SHARE < len(text):
            self._held = text
            return ""
        self._unseen = 0
        cut = self._redaction.unfinished(text)
        if len(text) - cut >= MOST_HELD:
            return self._cut_off(text, cut)
        self._held = text[cut:]
        return self._redaction.text(text[:cut])

    def finish(self) -> str:
        """The rest; a piece that is fed after it begins another text."""
        rest, self._held, self._unseen, self._skips = self._held, "", 0, False
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
