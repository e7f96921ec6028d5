"""The two cookies of a sign-in. The prefix `__Host-` binds them to this very host, over TLS."""

from __future__ import annotations

from aiohttp import hdrs, web

from streams.access.oidc.authorization import WITHIN_MS, SignIn
from streams.access.session import ABSOLUTE_MS

SESSION = "__Host-tidegate"
_BEGUN = "__Host-tidegate-signin-"
_STATE_CHARS = 12
_MOST_BEGUN = 4
"""A browser has so many sign-ins under way at once, one in each tab."""


def keep_session(answer: web.StreamResponse, text: str) -> None:
    """Have the browser keep a session."""
    keep(answer, SESSION, text, ABSOLUTE_MS // 1000)


def sets_session(answer: web.StreamResponse) -> bool:
    """Return whether an answer replaces or ends the session already."""
    set_ = answer.headers.getall(hdrs.SET_COOKIE, ())
    return any(text.startswith(f"{SESSION}=") for text in set_)


def forget_session(answer: web.StreamResponse) -> None:
    """Have the browser forget its session."""
    _forget(answer, SESSION)


def keep_sign_in(
    request: web.BaseRequest, answer: web.StreamResponse, sign_in: SignIn, text: str
) -> None:
    """Have the browser keep a sign-in until it comes back, and forget too many others."""
    others = [name for name, _ in _sent(request) if name.startswith(_BEGUN)]
    for name in others[: max(0, len(others) - _MOST_BEGUN + 1)]:
        _forget(answer, name)
    keep(answer, _name(sign_in.state), text, WITHIN_MS // 1000)


def forget_sign_in(answer: web.StreamResponse, state: str) -> None:
    """Have the browser forget a sign-in."""
    _forget(answer, _name(state))


def kept_sign_in(request: web.BaseRequest, state: str) -> str:
    """Return what the browser keeps of the sign-in with a state; empty if that is nothing."""
    return kept(request, _name(state))


def kept_session(request: web.BaseRequest) -> str:
    """Return the session that the browser keeps; empty if there is none."""
    return kept(request, SESSION)


def kept(request: web.BaseRequest, name: str) -> str:
    """Return the value of the one cookie that has exactly this name; empty if there is none."""
    found = [value for each, value in _sent(request) if each == name]
    return found[0] if len(found) == 1 else ""


def _sent(request: web.BaseRequest) -> list[tuple[str, str]]:
    """Return the cookies of a request, with names as the browser holds them.

    Any host nearby may set a cookie whose name is a blank of Unicode and then `__Host-...`: the
    browser takes that for another name. A reader that drops such blanks would take it for ours.
    """
    given = "; ".join(request.headers.getall(hdrs.COOKIE, ()))
    pairs = (pair.strip(" \t").partition("=") for pair in given.split(";"))
    return [(name, value) for name, _, value in pairs]


def _name(state: str) -> str:
    safe = "".join(c for c in state[:_STATE_CHARS] if c.isascii() and (c.isalnum() or c in "-_"))
    return _BEGUN + safe


def keep(answer: web.StreamResponse, name: str, text: str, seconds: int) -> None:
    """Have the browser keep a value under a name of this very host; 0 seconds forget it."""
    kept = f"{name}={text}; Max-Age={seconds}; Path=/; Secure; HttpOnly; SameSite=Lax"
    # aiohttp would not write a cookie that is set in its signal before an answer.
    answer.headers.add(hdrs.SET_COOKIE, kept)


def _forget(answer: web.StreamResponse, name: str) -> None:
    keep(answer, name, "", 0)
