"""What a vendor asks before it sends events, and the answer it waits for.

Slack, `url_verification`: https://docs.slack.dev/reference/events/url_verification. Discord, PING
of interactions and of webhook events: https://docs.discord.com/developers/interactions/overview
and https://docs.discord.com/developers/events/webhook-events. Both ask with a signature and
expect that a wrong one is refused: an answer is for a request whose signature held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_LARGEST_BYTES = 16 * 1024
"""No handshake is larger: a larger body is an event, and is not parsed for this."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer, instead of storing an event: a status and a JSON body, or none."""

    status: int
    body: bytes


def handshake(scheme: str, body: bytes) -> Answer | None:
    """The answer to a body that is a handshake of this scheme's vendor, else None."""
    if scheme not in _HANDSHAKES or len(body) > _LARGEST_BYTES:
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return _HANDSHAKES[scheme](document) if isinstance(document, dict) else None


def _slack(document: dict[str, Any]) -> Answer | None:
    challenge = document.get("challenge")
    if document.get("type") != "url_verification" or not isinstance(challenge, str):
        return None
    return Answer(200, orjson.dumps({"challenge": challenge}))


def _discord(document: dict[str, Any]) -> Answer | None:
    kind = document.get("type")
    if isinstance(kind, bool) or "event" in document:
        return None
    if kind == 0:  # of webhook events; their events, of type 1, have an `event`
        return Answer(204, b"")
    return Answer(200, b'{"type":1}') if kind == 1 else None


_HANDSHAKES: Mapping[str, Callable[[dict[str, Any]], Answer | None]] = {
    "slack": _slack,
    "discord": _discord,
}
