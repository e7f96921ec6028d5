"""Text that others wrote, as a terminal may show it: it steers nothing, and hides nothing."""

from __future__ import annotations

import re

_STEERS = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Control characters that JSON may contain as they are, and those that reorder or hide text."""


def harmless(text: str) -> str:
    """Return a text with a mark in place of each character that is not printed; lines stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def harmless_json(raw: bytes) -> str:
    """Return JSON of the same meaning in which what would steer a terminal is escaped."""
    return _STEERS.sub(_escaped, raw.decode())


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
