"""`slack`: `X-Slack-Signature: v0=<hex>`, HMAC-SHA256 over `v0:timestamp:body`.

Slack sends a signed `url_verification` request before it sends events:
https://docs.slack.dev/reference/events/url_verification.
"""

from __future__ import annotations

from typing import Any

import orjson

from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset
from ingress.schemes.scheme import Answer

LAYOUT = Layout(
    header="X-Slack-Signature",
    prefix="v0=",
    signed=("v0:", "timestamp", ":", "body", ""),
    timestamp_header="X-Slack-Request-Timestamp",
)
"""https://docs.slack.dev/authentication/verifying-requests-from-slack"""

PRESET = Preset(
    event_type="event.type || type || (command && 'slash_command')",
    subject="event.channel.id || event.channel || channel.id || channel_id",
    occurred_at="event_time || event.event_ts || actions[0].action_ts || action_ts",
    dedup_key="event && event_id || trigger_id",
    attributes={
        "api_app_id": "api_app_id",
        "callback_id": "callback_id || view.callback_id",
        "command": "command",
        "team_id": "team_id || team.id",
        "user": "event.user.id || event.user || user.id || user_id",
    },
    form="either",
)
"""https://docs.slack.dev/apis/events-api; forms: slash commands, and interactions as `payload`."""


def handshake(document: dict[str, Any], _: bytes) -> Answer | None:
    challenge = document.get("challenge")
    if document.get("type") != "url_verification" or not isinstance(challenge, str):
        return None
    return Answer(200, orjson.dumps({"challenge": challenge}))


SCHEME = laid_out(LAYOUT, PRESET, handshake=handshake)
