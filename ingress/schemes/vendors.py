"""Vendors of which a layout and a preset say everything, and that publish what they really send.

Their signatures and bodies are tested against requests of theirs; `senders/` has the rows that are
tested against the vendor's rule alone. The docstring below a scheme names the vendor's pages.
"""

from __future__ import annotations

from typing import Any

import orjson

from ingress.schemes.layout import ED25519, TIME_BODY, TIME_DOT_BODY, Layout, laid_out
from ingress.schemes.options import ToleranceOptions
from ingress.schemes.preset import Preset
from ingress.schemes.scheme import NO_CONTENT, Answer

STRIPE = laid_out(
    Layout(
        "Stripe-Signature",
        prefix="v1=",
        signed=TIME_DOT_BODY,
        separator=",",
        timestamp_prefix="t=",
    ),
    Preset(
        "type",
        "data.object.id || related_object.id",
        "created",
        "type && (data || related_object) && id",
        {
            "account": "account || context",
            "api_version": "api_version",
            "livemode": "livemode",
            "object": "data.object.object || related_object.type",
            "status": "data.object.status",
        },
    ),
)
"""https://docs.stripe.com/webhooks/signature, https://docs.stripe.com/api/events/object, and thin
events: https://docs.stripe.com/event-destinations

The key is the whole secret, including `whsec_`. While Stripe rolls a secret, the header carries one
`v1` for each secret.
"""

GITHUB = laid_out(
    Layout("X-Hub-Signature-256", prefix="sha256="),
    Preset(
        "action",
        "repository.full_name",
        "head_commit.timestamp",
        None,
        {
            "action": "action",
            "check_suite": (
                "check_suite.id || check_run.check_suite.id || workflow_run.check_suite_id"
            ),
            "conclusion": (
                "workflow_run.conclusion || workflow_job.conclusion || check_suite.conclusion"
                " || check_run.conclusion"
            ),
            "number": "pull_request.number || issue.number || discussion.number || number",
            "organization": "organization.login",
            "ref": "ref",
            "repository": "repository.full_name",
            "sender": "sender.login",
        },
        type_header="X-GitHub-Event",
        delivery_header="X-GitHub-Delivery",
        form="payload",
        may_be_empty=True,
    ),
)
"""https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries,
https://docs.github.com/en/webhooks/webhook-events-and-payloads

GitHub signs no time, so an old delivery verifies for ever, and only dedup stops its replay. The
same holds for every layout here without a timestamp. No body has an event id. A webhook of the
content type `application/x-www-form-urlencoded` sends the same JSON as the form's only field,
`payload`; the signature covers the form as it was sent:
https://docs.github.com/en/webhooks/using-webhooks/creating-webhooks.
"""

SHOPIFY = laid_out(
    Layout("X-Shopify-Hmac-SHA256", encoding="base64"),
    Preset(
        "`null`",
        "admin_graphql_api_id || id",
        "updated_at || created_at",
        None,
        {
            "currency": "currency",
            "financial_status": "financial_status",
            "fulfillment_status": "fulfillment_status",
            "status": "status",
            "updated_at": "updated_at",
        },
        type_header="X-Shopify-Topic",
        delivery_header="X-Shopify-Webhook-Id",
    ),
)
"""https://shopify.dev/docs/apps/build/webhooks/subscribe/https

https://shopify.dev/docs/api/webhooks: a body is the entity itself, its topic is in a header. The id
in it is the entity's, and `updated_at` has whole seconds, so two changes may share both.
"""


def slack_handshake(document: dict[str, Any], _: bytes) -> Answer | None:
    """https://docs.slack.dev/reference/events/url_verification: signed, before any event."""
    challenge = document.get("challenge")
    if document.get("type") != "url_verification" or not isinstance(challenge, str):
        return None
    return Answer(200, orjson.dumps({"challenge": challenge}))


SLACK = laid_out(
    Layout(
        "X-Slack-Signature",
        prefix="v0=",
        signed=("v0:", "timestamp", ":", "body", ""),
        timestamp_header="X-Slack-Request-Timestamp",
    ),
    Preset(
        "event.type || type || (command && 'slash_command')",
        "event.channel.id || event.channel || channel.id || channel_id",
        "event_time || event.event_ts || actions[0].action_ts || action_ts",
        "event && event_id || trigger_id",
        {
            "api_app_id": "api_app_id",
            "callback_id": "callback_id || view.callback_id",
            "command": "command",
            "team_id": "team_id || team.id",
            "user": "event.user.id || event.user || user.id || user_id",
        },
        form="either",
    ),
    handshake=slack_handshake,
)
"""https://docs.slack.dev/authentication/verifying-requests-from-slack

https://docs.slack.dev/apis/events-api; forms: slash commands, and interactions as `payload`.
"""

ZENDESK = laid_out(
    Layout(
        "X-Zendesk-Webhook-Signature",
        encoding="base64",
        signed=TIME_BODY,
        timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
        clock="iso",
    ),
    Preset(
        "type",
        "detail.id",
        "time",
        "starts_with(type, 'zen:event-type:') && detail"
        " && (id || [type, detail.id, detail.updated_at])",
        {
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
    ),
    options=ToleranceOptions,
)
"""https://developer.zendesk.com/documentation/webhooks/verifying/,
https://developer.zendesk.com/api-reference/webhooks/event-types/webhook-event-types/

The secret is used as the text that Zendesk shows, not decoded; the body may be empty. Only an event
that Zendesk itself describes has an id of its own. The body of a trigger or an automation is its
administrator's, and an `id` in it is usually the ticket's:
https://developer.zendesk.com/documentation/webhooks/creating-and-monitoring-webhooks/.
"""


def discord_handshake(document: dict[str, Any], _: bytes) -> Answer | None:
    """The PING that Discord sends before events; it expects one with a wrong signature refused.

    https://docs.discord.com/developers/interactions/overview (interactions) and
    https://docs.discord.com/developers/events/webhook-events (webhook events)
    """
    kind = document.get("type")
    if isinstance(kind, bool) or "event" in document:
        return None
    if kind == 0:  # a webhook events' PING; their events have type 1 and an `event`
        return Answer(204, b"")
    return Answer(200, b'{"type":1}') if kind == 1 else None


DISCORD = laid_out(
    Layout("X-Signature-Ed25519", signed=TIME_BODY, timestamp_header="X-Signature-Timestamp"),
    Preset(
        "event.type || ['interaction', type]",
        "channel_id || event.data.guild.id || event.data.user.id || guild_id",
        "event.timestamp",
        "type && application_id && id",
        {
            "application_id": "application_id",
            "command": "data.name || data.custom_id",
            "guild_id": "guild_id || event.data.guild.id",
            "user_id": "member.user.id || user.id || event.data.user.id",
        },
    ),
    by=ED25519,
    handshake=discord_handshake,
    success=NO_CONTENT,
)
"""https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint

Discord demands no bound on the timestamp's age; the other vendors' five minutes are used here too.
It repeats a webhook event that is not answered 204. An interaction has an id
(https://docs.discord.com/developers/interactions/receiving-and-responding), an event has none
(https://docs.discord.com/developers/events/webhook-events).
"""

INTERCOM = laid_out(
    Layout("X-Hub-Signature", prefix="sha1=", digest="sha1"),
    Preset(
        "topic",
        "data.item.id",
        "created_at",
        "topic && data && id",
        {"app_id": "app_id", "item_type": "data.item.type", "state": "data.item.state"},
    ),
)
"""https://developers.intercom.com/docs/webhooks/webhook-notifications,
https://developers.intercom.com/docs/references/webhooks/webhook-models"""

PAGERDUTY = laid_out(
    Layout("X-PagerDuty-Signature", prefix="v1=", separator=","),
    Preset(
        "event.event_type",
        "event.data.incident.id || event.data.id",
        "event.occurred_at",
        "event.id",
        {
            "resource_type": "event.resource_type",
            "service": "event.data.service.id",
            "status": "event.data.status",
            "urgency": "event.data.urgency",
        },
        delivery_header="X-Webhook-Id",
    ),
)
"""https://developer.pagerduty.com/docs/verifying-webhook-signatures,
https://developer.pagerduty.com/docs/webhooks-overview"""
