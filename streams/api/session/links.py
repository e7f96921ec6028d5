"""Links by which whoever has a token opens the console in a browser, without the token in a URL.

A link is good for two minutes and for one session. It is sealed by the vault, so that every replica
can open it and nobody can make one; each replica takes it once.
"""

from __future__ import annotations

from streams.access.principal import Principal
from streams.api.refusal import Refusal
from streams.api.session.desk import SignInDesk

LIFETIME_MS = 120_000
_PATH = "/console/enter?link="


def new_link(desk: SignInDesk, principal: Principal) -> str:
    """Return the path that opens a session for whoever has a token.

    Raises:
        Refusal: 409, a person asks for it, who has a session already.
    """
    if principal.is_person:
        why = "a person's session makes no link: open /console, or send a token"
        raise Refusal(409, "no-token", why)
    until = desk.now() + LIFETIME_MS
    return _PATH + desk.links.seal(f"{until} {principal.id}".encode())


def opened(desk: SignInDesk, link: str) -> str | None:
    """Return whose token made a link; None for one that is too old, was used, or is none."""
    plain = desk.links.open(link)
    if plain is None:
        return None
    until, _, principal_id = plain.decode().partition(" ")
    if int(until) <= desk.now() or not desk.used.take(link, int(until), desk.now()):
        return None
    return principal_id
