"""Senders that sign the body, and some the URL, but no time: an old delivery verifies for ever.

The page above a row is where its vendor says how it signs and what it sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ingress.schemes.challenges import MetaOptions, dropbox, meta, woocommerce
from ingress.schemes.layout import Layout, laid_out
from ingress.schemes.preset import Preset
from ingress.schemes.scheme import OK, OK_EMPTY, Answer, Scheme

_row = partial(laid_out, success=OK)


def intent_to_receive(document: dict[str, Any], _: bytes) -> Answer | None:
    """Xero tests a URL with signed bodies without events, and expects 200."""
    return Answer(200, b"") if document.get("events") == [] else None


SENDERS: Mapping[str, Scheme] = {
    # https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
    "bitbucket": _row(
        Layout("X-Hub-Signature", prefix="sha256="),
        Preset(
            "`null`",
            "repository.full_name",
            "date",
            None,
            {"actor": "actor.uuid", "repository": "repository.full_name"},
            type_header="X-Event-Key",
            delivery_header="X-Request-UUID",
        ),
    ),
    # https://docs.checkr.com/#section/Webhooks/Validating-webhooks
    "checkr": _row(
        Layout("X-Checkr-Signature"),
        Preset(
            "type",
            "data.object.id",
            "created_at",
            "type && data && id",
            {"object": "data.object.object", "status": "data.object.status"},
        ),
    ),
    # https://docs.cdp.coinbase.com/commerce-onchain/docs/webhooks-security
    "coinbase-commerce": _row(
        Layout("X-CC-Webhook-Signature"),
        Preset(
            "event.type",
            "event.data.code || event.data.id",
            "event.created_at",
            "event.type && event.data && event.id",
            {"code": "event.data.code"},
        ),
    ),
    # https://developers.docusign.com/platform/webhooks/connect/validate
    "docusign": _row(
        Layout("X-DocuSign-Signature-1", encoding="base64"),
        Preset(
            "event",
            "data.envelopeId",
            "generatedDateTime",
            None,
            {"account": "data.accountId", "status": "data.envelopeSummary.status"},
        ),
    ),
    # https://www.dropbox.com/developers/reference/webhooks
    "dropbox": _row(
        Layout("X-Dropbox-Signature"),
        Preset(
            "list_folder && 'list_folder'",
            "list_folder.accounts[0]",
            "`null`",
            None,
            own_event=True,
        ),
        challenge=dropbox,
    ),
    # https://docs.easypost.com/guides/webhooks-guide
    "easypost": _row(
        Layout("X-Hmac-Signature", prefix="hmac-sha256-hex="),
        Preset(
            "description",
            "result.id",
            "created_at",
            "description && result && id",
            {"mode": "mode", "object": "result.object", "status": "result.status"},
        ),
    ),
    # https://dev.frontapp.com/docs/rule-webhooks
    "front-rule": _row(
        Layout("X-Front-Signature", encoding="base64", digest="sha1"),
        Preset(
            "type",
            "conversation.id",
            "emitted_at",
            "type && emitted_at && id",
            {"status": "conversation.status"},
        ),
    ),
    # https://developers.facebook.com/docs/graph-api/webhooks/getting-started
    "meta": _row(
        Layout("X-Hub-Signature-256", prefix="sha256="),
        Preset(
            "[object, entry[0].changes[0].field]",
            "entry[0].id",
            "entry[0].time",
            None,
            {"object": "object"},
        ),
        options=MetaOptions,
        challenge=meta,
    ),
    # https://paystack.com/docs/payments/webhooks/
    "paystack": _row(
        Layout("X-Paystack-Signature", digest="sha512"),
        Preset(
            "event",
            "data.reference || data.id",
            "data.paid_at || data.created_at",
            None,
            {"currency": "data.currency", "status": "data.status"},
        ),
    ),
    # https://razorpay.com/docs/webhooks/validate-test/
    "razorpay": _row(
        Layout("X-Razorpay-Signature"),
        Preset(
            "event",
            "payload.payment.entity.id || payload.order.entity.id || "
            "payload.refund.entity.id || payload.subscription.entity.id",
            "created_at",
            None,
            {"account": "account_id"},
            delivery_header="X-Razorpay-Event-Id",
        ),
    ),
    # https://docs.sentry.io/integrations/integration-platform/webhooks/
    "sentry": _row(
        Layout("Sentry-Hook-Signature"),
        Preset(
            "action",
            "data.issue.id || data.error.issue_id || data.event.issue_id || installation.uuid",
            "`null`",
            None,
            {"action": "action"},
            type_header="Sentry-Hook-Resource",
            delivery_header="Request-ID",
        ),
    ),
    # https://developer.squareup.com/docs/webhooks/step3validate
    "square": _row(
        Layout(
            "X-Square-HmacSha256-Signature", encoding="base64", signed=("", "url", "", "body", "")
        ),
        Preset(
            "type",
            "data.id",
            "created_at",
            "type && data && event_id",
            {"merchant": "merchant_id", "object": "data.type"},
        ),
    ),
    # https://www.typeform.com/developers/webhooks/secure-your-webhooks/
    "typeform": _row(
        Layout("Typeform-Signature", prefix="sha256=", encoding="base64"),
        Preset(
            "event_type",
            "form_response.form_id",
            "form_response.submitted_at",
            "event_type && form_response && event_id",
            {"token": "form_response.token"},
        ),
    ),
    # https://vercel.com/docs/webhooks/webhooks-api
    "vercel": _row(
        Layout("X-Vercel-Signature", digest="sha1"),
        Preset(
            "type",
            "payload.deployment.id || payload.project.id",
            "createdAt",
            "type && payload && id",
            {"project": "payload.project.id", "region": "region"},
        ),
    ),
    # https://developer.woocommerce.com/docs/best-practices/urls-and-routing/webhooks/
    "woocommerce": _row(
        Layout("X-WC-Webhook-Signature", encoding="base64"),
        Preset(
            "`null`",
            "id",
            "date_modified_gmt || date_created_gmt",
            None,
            {"currency": "currency", "status": "status"},
            type_header="X-WC-Webhook-Topic",
            delivery_header="X-WC-Webhook-Delivery-ID",
        ),
        challenge=woocommerce,
    ),
    # https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/
    "xero": _row(
        Layout("X-Xero-Signature", encoding="base64"),
        Preset("events && 'batch'", "events[0].tenantId", "events[0].eventDateUtc", None),
        handshake=intent_to_receive,
        success=OK_EMPTY,
    ),
}
