"""Senders that sign the time together with the body, so that an old delivery is refused.

The page above a row is where its vendor says how it signs and what it sends.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from ingress.schemes.challenges import repeated
from ingress.schemes.keys import hex_key
from ingress.schemes.layout import (
    ECDSA,
    ED25519,
    TIME_BODY,
    TIME_DOT_BODY,
    Algorithm,
    Layout,
    by_hmac,
    hmac_signature,
    laid_out,
)
from ingress.schemes.options import ToleranceOptions
from ingress.schemes.preset import Preset
from ingress.schemes.scheme import OK, Answer, Scheme

_row = partial(laid_out, options=ToleranceOptions, success=OK)


def _by_hex_key(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    return by_hmac(layout, hex_key(secret), message, signatures)


def _hex_key_signature(layout: Layout, secret: bytes, message: bytes) -> str:
    return hmac_signature(layout, hex_key(secret), message)


_HEX_HMAC = Algorithm(_by_hex_key, _hex_key_signature, hex_key)


def url_validation(document: dict[str, Any], secret: bytes) -> Answer | None:
    """https://developers.zoom.us/docs/api/webhooks/#validate-your-webhook-endpoint"""
    payload = document.get("payload")
    plain = payload.get("plainToken") if isinstance(payload, dict) else None
    if document.get("event") != "endpoint.url_validation" or repeated(plain) is None:
        return None
    encrypted = hmac.digest(secret, str(plain).encode(), "sha256").hex()
    return Answer(200, orjson.dumps({"plainToken": plain, "encryptedToken": encrypted}))


def callback_verification(document: dict[str, Any], _: bytes) -> Answer | None:
    """https://dev.twitch.tv/docs/eventsub/handling-webhook-events/#responding-to-a-challenge-request

    Only this request has a `challenge` beside its subscription; the header with its type is not
    signed.
    """
    if not isinstance(document.get("subscription"), dict) or "event" in document:
        return None
    return repeated(document.get("challenge"))


SENDERS: Mapping[str, Scheme] = {
    # https://developer.box.com/guides/webhooks/v2/signatures-v2/
    "box": _row(
        Layout(
            "BOX-SIGNATURE-PRIMARY",
            encoding="base64",
            signed=("", "body", "", "timestamp", ""),
            clock="iso",
            timestamp_header="BOX-DELIVERY-TIMESTAMP",
            tolerance_seconds=600,
        ),
        Preset(
            "trigger",
            "source.id",
            "created_at",
            "trigger && source && id",
            {"user": "created_by.id", "webhook": "webhook.id"},
            delivery_header="BOX-DELIVERY-ID",
        ),
    ),
    # https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures
    "calendly": _row(
        Layout(
            "Calendly-Webhook-Signature",
            prefix="v1=",
            signed=TIME_DOT_BODY,
            separator=",",
            timestamp_prefix="t=",
        ),
        Preset("event", "payload.uri", "created_at", None, {"status": "payload.status"}),
    ),
    # https://developer.close.com/resources/webhook-subscriptions/
    "close": _row(
        Layout("Close-Sig-Hash", signed=TIME_BODY, timestamp_header="Close-Sig-Timestamp"),
        Preset(
            "[event.object_type, event.action]",
            "event.object_id",
            "event.date_created",
            "event.object_type && event.action && event.id",
            {"lead": "event.lead_id", "organization": "event.organization_id"},
        ),
        by=_HEX_HMAC,
    ),
    # https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation
    "hubspot": _row(
        Layout(
            "X-HubSpot-Signature-v3",
            encoding="base64",
            clock="milliseconds",
            signed=("", "method", "", "url", "", "body", "", "timestamp", ""),
            timestamp_header="X-HubSpot-Request-Timestamp",
        ),
        Preset(
            "[0] && 'batch'",
            "[0].objectId",
            "[0].occurredAt",
            "[].[eventId, subscriptionId, portalId, occurredAt]",
            {"portal": "[0].portalId"},
        ),
    ),
    # https://help.lob.com/print-and-mail/getting-data-and-results/using-webhooks
    "lob": _row(
        Layout(
            "Lob-Signature",
            signed=TIME_DOT_BODY,
            clock="milliseconds",
            timestamp_header="Lob-Signature-Timestamp",
        ),
        Preset(
            "event_type.id",
            "reference_id || body.id",
            "date_created",
            "event_type && body && id",
            {"object": "body.object"},
        ),
    ),
    # https://www.mux.com/docs/core/verify-webhook-signatures
    "mux": _row(
        Layout(
            "Mux-Signature",
            prefix="v1=",
            signed=TIME_DOT_BODY,
            separator=",",
            timestamp_prefix="t=",
        ),
        Preset(
            "type",
            "data.id || object.id",
            "created_at",
            "type && data && id",
            {"environment": "environment.id", "status": "data.status"},
        ),
    ),
    # https://developer.paddle.com/webhooks/about/signature-verification
    "paddle": _row(
        Layout(
            "Paddle-Signature",
            prefix="h1=",
            signed=("", "timestamp", ":", "body", ""),
            separator=";",
            timestamp_prefix="ts=",
        ),
        Preset(
            "event_type",
            "data.id",
            "occurred_at",
            "event_type && data && event_id",
            {"currency": "data.currency_code", "status": "data.status"},
        ),
    ),
    # https://docs.withpersona.com/webhooks-best-practices
    "persona": _row(
        Layout(
            "Persona-Signature",
            prefix="v1=",
            signed=TIME_DOT_BODY,
            separator=",",
            timestamp_prefix="t=",
        ),
        Preset(
            "data.attributes.name",
            "data.attributes.payload.data.id",
            'data.attributes."created-at" || data.attributes.created_at',
            "data.attributes.name && data.id",
            {"status": "data.attributes.payload.data.attributes.status"},
        ),
    ),
    # https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features
    "sendgrid": _row(
        Layout(
            "X-Twilio-Email-Event-Webhook-Signature",
            encoding="base64",
            signed=TIME_BODY,
            timestamp_header="X-Twilio-Email-Event-Webhook-Timestamp",
        ),
        Preset("[0] && 'batch'", "[0].sg_message_id", "[0].timestamp", "[].[sg_event_id]"),
        by=ECDSA,
    ),
    # https://developers.telnyx.com/docs/development/api-fundamentals/webhooks
    "telnyx": _row(
        Layout(
            "Telnyx-Signature-Ed25519",
            encoding="base64",
            signed=("", "timestamp", "|", "body", ""),
            timestamp_header="Telnyx-Timestamp",
        ),
        Preset(
            "data.event_type",
            "data.payload.id || data.payload.call_control_id",
            "data.occurred_at",
            "data.event_type && data.payload && data.id",
            {"direction": "data.payload.direction", "state": "data.payload.state"},
        ),
        by=ED25519,
    ),
    # https://dev.twitch.tv/docs/eventsub/handling-webhook-events/#verifying-the-event-message
    "twitch": _row(
        Layout(
            "Twitch-Eventsub-Message-Signature",
            prefix="sha256=",
            clock="iso",
            signed=("", "id", "", "timestamp", "", "body", ""),
            tolerance_seconds=600,
            timestamp_header="Twitch-Eventsub-Message-Timestamp",
            id_header="Twitch-Eventsub-Message-Id",
        ),
        Preset(
            "subscription.type",
            "event.broadcaster_user_id || subscription.id",
            "event.started_at || subscription.created_at",
            None,
            {"status": "subscription.status", "subscription": "subscription.id"},
        ),
        handshake=callback_verification,
    ),
    # https://workos.com/docs/events/data-syncing/webhooks
    "workos": _row(
        Layout(
            "WorkOS-Signature",
            prefix="v1=",
            signed=TIME_DOT_BODY,
            clock="milliseconds",
            separator=",",
            timestamp_prefix="t=",
        ),
        Preset(
            "event",
            "data.id",
            "created_at",
            "event && data && id",
            {"object": "data.object", "state": "data.state"},
        ),
    ),
    # https://developers.zoom.us/docs/api/webhooks/#verify-webhook-events
    "zoom": _row(
        Layout(
            "X-Zm-Signature",
            prefix="v0=",
            timestamp_header="X-Zm-Request-Timestamp",
            signed=("v0:", "timestamp", ":", "body", ""),
        ),
        Preset(
            "event",
            "payload.object.id || payload.object.uuid",
            "event_ts",
            None,
            {"account": "payload.account_id"},
        ),
        handshake=url_validation,
    ),
}
