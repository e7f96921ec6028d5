"""Senders that repeat a shared secret in a header: no signature protects body or time.

Whoever sees one request can send any other, so TLS must keep strangers from seeing one. The page
above a row is where its vendor says so.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence
from functools import partial

from ingress.schemes.challenges import okta
from ingress.schemes.layout import TOKEN, Algorithm, Layout, laid_out
from ingress.schemes.preset import Preset
from ingress.schemes.request import raw
from ingress.schemes.scheme import OK, OK_EMPTY, Scheme

_row = partial(laid_out, by=TOKEN, success=OK)


def _basic(layout: Layout, secret: bytes, message: bytes) -> str:
    """HTTP Basic (RFC 7617); the secret is `user:password`."""
    return base64.b64encode(secret).decode()


def _by_basic(layout: Layout, secret: bytes, message: bytes, signatures: Sequence[str]) -> bool:
    given = signatures[0] if signatures else ""
    return hmac.compare_digest(_basic(layout, secret, message).encode(), raw(given))


_BASIC = Algorithm(_by_basic, _basic)

SENDERS: Mapping[str, Scheme] = {
    # https://docs.gitlab.com/user/project/integrations/webhooks/
    "gitlab": _row(
        Layout("X-Gitlab-Token"),
        Preset(
            "[object_kind, object_attributes.action]",
            "project.path_with_namespace",
            "object_attributes.updated_at",
            None,
            {"project": "project.path_with_namespace", "ref": "ref", "user": "user.username"},
            delivery_header="Idempotency-Key",
        ),
    ),
    # https://developer.okta.com/docs/concepts/event-hooks/
    "okta": _row(
        Layout("Authorization"),
        Preset("eventType", "source", "eventTime", "eventType && data && eventId"),
        challenge=okta,
        success=OK_EMPTY,
    ),
    # https://pipedrive.readme.io/docs/guide-for-webhooks-v2
    "pipedrive": _row(
        Layout("Authorization", prefix="Basic "),
        Preset(
            "[meta.entity || meta.object, meta.action]",
            "meta.entity_id || data.id",
            "meta.timestamp",
            "meta.entity && [meta.id, meta.entity, meta.entity_id, meta.action]",
            {"company": "meta.company_id", "user": "meta.user_id"},
        ),
        by=_BASIC,
    ),
    # https://core.telegram.org/bots/api#setwebhook
    "telegram": _row(
        Layout("X-Telegram-Bot-Api-Secret-Token"),
        Preset(
            "keys(@) | [?@ != 'update_id'] | [0]",
            "message.chat.id || edited_message.chat.id || callback_query.from.id",
            "message.date || edited_message.edit_date",
            "update_id",
        ),
    ),
}
