"""Links that a client hands in; whether one may be dialled is decided when it is."""

from __future__ import annotations

from urllib.parse import urlsplit

_MAX_CHARACTERS = 2_048


def web_link(url: str | None) -> str | None:
    """The link itself.

    Raises:
        ValueError: it is not an absolute http or https link with a host, or carries a password.
    """
    if url is None:
        return None
    state = urlsplit(url)
    if state.scheme not in ("http", "https") or not state.hostname or len(url) > _MAX_CHARACTERS:
        raise ValueError("must be an absolute http or https link")
    if state.username is not None or state.password is not None:
        raise ValueError("must not carry a user or password")
    return url
