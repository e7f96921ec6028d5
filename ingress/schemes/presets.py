"""What each scheme's sender puts where: JMESPath over the body, as data.

A body is signed, most headers are not: apart from an event's name and a delivery's id, which some
vendors put nowhere else, nothing is read from an unsigned header, and neither takes part in the
fingerprint. A dedup key is the event's id, or an entity and its revision, never the entity alone;
where a body has neither, the hash of its bytes stands in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Preset:
    """Expressions for the normalized fields; None leaves the field to its fallback.

    An event type of several parts is joined by dots. `type_prefix` is cut off it; `type_header`
    names the header that it begins with; `delivery_header` the one that carries the vendor's
    delivery id. `form`: the vendor may send a form, whose fields are the document, or one of
    whose fields, `payload`, is the document in JSON. `may_be_empty`: it may send no body at all.
    """

    event_type: str
    subject: str
    occurred_at: str
    dedup_key: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    type_prefix: str = ""
    type_header: str | None = None
    delivery_header: str | None = None
    form: Literal["fields", "payload"] | None = None
    may_be_empty: bool = False


GENERIC = Preset(
    event_type="type || event_type || event",
    subject="subject || data.id",
    occurred_at="occurred_at || time || timestamp || created_at || created",
    dedup_key="id || event_id",
)
"""Covers CloudEvents in structured mode and what most vendors' bodies look like."""

STANDARD_WEBHOOKS = Preset(
    event_type="type || event_type || event",
    subject="data.id || subject",
    occurred_at="timestamp || created_at || occurred_at || created",
    dedup_key="(type && data && id) || event_id",
    attributes={"object": "data.object"},
)
"""https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

An `id` beside `type` and `data` is the event's; any other may be the entity's. Without it the key
is `webhook-id`, which is signed and stays the same when a message is sent again.
"""

STRIPE = Preset(
    event_type="type",
    subject="data.object.id || related_object.id",
    occurred_at="created",
    dedup_key="id",
    attributes={
        "account": "account || context",
        "api_version": "api_version",
        "livemode": "livemode",
        "object": "data.object.object || related_object.type",
        "status": "data.object.status",
    },
)
"""https://docs.stripe.com/api/events/object; thin events: https://docs.stripe.com/event-destinations"""

GITHUB = Preset(
    event_type="action",
    subject="repository.full_name",
    occurred_at="head_commit.timestamp",
    dedup_key=None,
    attributes={
        "action": "action",
        "number": "pull_request.number || issue.number || discussion.number || number",
        "organization": "organization.login",
        "ref": "ref",
        "repository": "repository.full_name",
        "sender": "sender.login",
    },
    type_header="X-GitHub-Event",
    delivery_header="X-GitHub-Delivery",
    may_be_empty=True,
)
"""https://docs.github.com/en/webhooks/webhook-events-and-payloads: no body has an event id."""

SHOPIFY = Preset(
    event_type="`null`",
    subject="admin_graphql_api_id || id",
    occurred_at="updated_at || created_at",
    dedup_key="[admin_graphql_api_id || id, updated_at]",
    attributes={
        "currency": "currency",
        "financial_status": "financial_status",
        "fulfillment_status": "fulfillment_status",
        "status": "status",
        "updated_at": "updated_at",
    },
    type_header="X-Shopify-Topic",
    delivery_header="X-Shopify-Webhook-Id",
)
"""https://shopify.dev/docs/api/webhooks: a body is the entity itself, its topic is in a header."""

SLACK = Preset(
    event_type="event.type || type || (command && 'slash_command')",
    subject="event.channel.id || event.channel || channel.id || channel_id",
    occurred_at="event_time || event.event_ts || actions[0].action_ts || action_ts",
    dedup_key="event_id || trigger_id",
    attributes={
        "api_app_id": "api_app_id",
        "callback_id": "callback_id || view.callback_id",
        "command": "command",
        "team_id": "team_id || team.id",
        "user": "event.user.id || event.user || user.id || user_id",
    },
    form="payload",
)
"""https://docs.slack.dev/apis/events-api; forms: slash commands, and interactions as `payload`."""

ZENDESK = Preset(
    event_type="type",
    subject="detail.id",
    occurred_at="time",
    dedup_key="id || [type, detail.id, detail.updated_at]",
    attributes={
        "account_id": "account_id",
        "priority": "detail.priority",
        "requester_id": "detail.requester_id",
        "resource": "subject",
        "status": "detail.status",
        "updated_at": "detail.updated_at",
    },
    type_prefix="zen:event-type:",
    delivery_header="X-Zendesk-Webhook-Invocation-Id",
    may_be_empty=True,
)
"""https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types/"""

TWILIO = Preset(
    event_type=(
        "MessageSid && ['message', MessageStatus || SmsStatus] || CallSid && ['call', CallStatus]"
    ),
    subject="MessageSid || CallSid",
    occurred_at="Timestamp",
    dedup_key=(
        "MessageSid && [MessageSid, MessageStatus || SmsStatus]"
        " || CallSid && [CallSid, CallStatus, SequenceNumber]"
    ),
    attributes={
        "account_sid": "AccountSid",
        "error_code": "ErrorCode",
        "status": "MessageStatus || SmsStatus || CallStatus",
    },
    delivery_header="I-Twilio-Idempotency-Token",
    form="fields",
)
"""https://www.twilio.com/docs/messaging/guides/track-outbound-message-status and
https://www.twilio.com/docs/voice/api/call-resource#statuscallback: `SequenceNumber` is in a
call's status events alone; its other requests, one for each step of a call, go by their bytes."""

DISCORD = Preset(
    event_type="event.type || ['interaction', type]",
    subject="channel_id || event.data.guild.id || event.data.user.id || guild_id",
    occurred_at="event.timestamp",
    dedup_key="id",
    attributes={
        "application_id": "application_id",
        "command": "data.name || data.custom_id",
        "guild_id": "guild_id || event.data.guild.id",
        "user_id": "member.user.id || user.id || event.data.user.id",
    },
)
"""https://docs.discord.com/developers/interactions/receiving-and-responding (an interaction has an
id) and https://docs.discord.com/developers/events/webhook-events (an event has none)."""

INTERCOM = Preset(
    event_type="topic",
    subject="data.item.id",
    occurred_at="created_at",
    dedup_key="id",
    attributes={"app_id": "app_id", "item_type": "data.item.type", "state": "data.item.state"},
)
"""https://developers.intercom.com/docs/references/webhooks/webhook-models"""

LINEAR = Preset(
    event_type="[type, action]",
    subject="data.id || agentSession.id || notification.id",
    occurred_at="createdAt",
    dedup_key=(
        "[type, action, data.id || agentSession.id || notification.id,"
        " data.updatedAt || createdAt, createdAt || data.updatedAt]"
    ),
    attributes={
        "action": "action",
        "actor": "actor.id",
        "identifier": "data.identifier",
        "organization": "organizationId",
        "team": "data.teamId || data.team.id",
    },
    delivery_header="Linear-Delivery",
)
"""https://linear.app/developers/webhooks: `webhookId` is the webhook's and not the event's. An
entity's `updatedAt` moves on a meaningful change alone: the action's own time is in the key too."""

PAGERDUTY = Preset(
    event_type="event.event_type",
    subject="event.data.incident.id || event.data.id",
    occurred_at="event.occurred_at",
    dedup_key="event.id",
    attributes={
        "resource_type": "event.resource_type",
        "service": "event.data.service.id",
        "status": "event.data.status",
        "urgency": "event.data.urgency",
    },
    delivery_header="X-Webhook-Id",
)
"""https://developer.pagerduty.com/docs/webhooks-overview"""

PRESETS: Mapping[str, Preset] = {
    "standard-webhooks": STANDARD_WEBHOOKS,
    "stripe": STRIPE,
    "github": GITHUB,
    "shopify": SHOPIFY,
    "slack": SLACK,
    "zendesk": ZENDESK,
    "twilio": TWILIO,
    "discord": DISCORD,
    "intercom": INTERCOM,
    "linear": LINEAR,
    "pagerduty": PAGERDUTY,
    "hmac-sha256": GENERIC,
    "ed25519": GENERIC,
    "jwt": GENERIC,
}
