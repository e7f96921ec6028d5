"""Where a browser goes after its sign-in: a path of this server, and never another place."""

from __future__ import annotations

from urllib.parse import urlsplit

DEFAULT = "/v1/session"
"""What shows who has signed in."""

_LONGEST = 1_000


def is_path_here(text: str) -> bool:
    """Return whether a browser that is sent to a text stays on this server.

    Browsers read a backslash as a slash, drop tabs and newlines, and take what follows two slashes
    for a host.
    """
    if not text.startswith("/") or text[1:2] in ("/", "\\") or len(text) > _LONGEST:
        return False
    if "\\" in text or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
