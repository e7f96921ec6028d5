"""`discord`: `X-Signature-Ed25519: <hex>`, Ed25519 over `timestamp` and body.

Discord sends a PING before it sends events, for interactions
(https://docs.discord.com/developers/interactions/overview) and for webhook events
(https://docs.discord.com/developers/events/webhook-events). It expects a ping with a wrong
signature to be refused, so only a request whose signature holds is answered. It repeats a webhook
event that is not answered 204.
"""

from __future__ import annotations

from typing import Any

from ingress.schemes.layout import ED25519, Layout, laid_out
from ingress.schemes.preset import Preset
from ingress.schemes.scheme import NO_CONTENT, Answer

LAYOUT = Layout(
    header="X-Signature-Ed25519",
    signed=("", "timestamp", "", "body", ""),
    timestamp_header="X-Signature-Timestamp",
)
"""https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint

Discord demands no bound on the timestamp's age; the other vendors' five minutes are used here too.
"""

PRESET = Preset(
    event_type="event.type || ['interaction', type]",
    subject="channel_id || event.data.guild.id || event.data.user.id || guild_id",
    occurred_at="event.timestamp",
    dedup_key="type && application_id && id",
    attributes={
        "application_id": "application_id",
        "command": "data.name || data.custom_id",
        "guild_id": "guild_id || event.data.guild.id",
        "user_id": "member.user.id || user.id || event.data.user.id",
    },
)
"""https://docs.discord.com/developers/interactions/receiving-and-responding (an interaction has an
id) and https://docs.discord.com/developers/events/webhook-events (an event has none)."""


def handshake(document: dict[str, Any], _: bytes) -> Answer | None:
    kind = document.get("type")
    if isinstance(kind, bool) or "event" in document:
        return None
    if kind == 0:  # a webhook events' PING; their events have type 1 and an `event`
        return Answer(204, b"")
    return Answer(200, b'{"type":1}') if kind == 1 else None


SCHEME = laid_out(LAYOUT, PRESET, by=ED25519, handshake=handshake, success=NO_CONTENT)
