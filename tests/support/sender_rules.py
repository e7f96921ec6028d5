"""How each vendor of `ingress/schemes/senders` signs, written out from its page.

Nothing here is shared with the code under test.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime

URL = "https://hooks.example.com/v1/hooks/acme/vendor"
SECRET = b"00112233445566778899aabbccddeeff"
"""A key of `close` is hexadecimal; the others take any text."""

Rule = Callable[[bytes, float], dict[str, str]]
"""The headers of a body that is sent at a time."""


def mac(message: bytes, name: str = "sha256", secret: bytes = SECRET) -> bytes:
    return hmac.new(secret, message, getattr(hashlib, name)).digest()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def seconds(at: float) -> str:
    return str(int(at))


def millis(at: float) -> str:
    return str(int(at * 1000))


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def stripe_like(body: bytes, at: str) -> str:
    return f"t={at},v1={mac(at.encode() + b'.' + body).hex()}"


BODY_RULES: dict[str, Rule] = {
    "bitbucket": lambda b, _: {"X-Hub-Signature": "sha256=" + mac(b).hex()},
    "checkr": lambda b, _: {"X-Checkr-Signature": mac(b).hex()},
    "coinbase-commerce": lambda b, _: {"X-CC-Webhook-Signature": mac(b).hex()},
    "docusign": lambda b, _: {"X-DocuSign-Signature-1": b64(mac(b))},
    "dropbox": lambda b, _: {"X-Dropbox-Signature": mac(b).hex()},
    "easypost": lambda b, _: {"X-Hmac-Signature": "hmac-sha256-hex=" + mac(b).hex()},
    "front-rule": lambda b, _: {"X-Front-Signature": b64(mac(b, "sha1"))},
    "meta": lambda b, _: {"X-Hub-Signature-256": "sha256=" + mac(b).hex()},
    "paystack": lambda b, _: {"x-paystack-signature": mac(b, "sha512").hex()},
    "razorpay": lambda b, _: {"X-Razorpay-Signature": mac(b).hex()},
    "sentry": lambda b, _: {"Sentry-Hook-Signature": mac(b).hex()},
    "square": lambda b, _: {"x-square-hmacsha256-signature": b64(mac(URL.encode() + b))},
    "typeform": lambda b, _: {"Typeform-Signature": "sha256=" + b64(mac(b))},
    "vercel": lambda b, _: {"x-vercel-signature": mac(b, "sha1").hex()},
    "woocommerce": lambda b, _: {"X-WC-Webhook-Signature": b64(mac(b))},
    "xero": lambda b, _: {"x-xero-signature": b64(mac(b))},
}

TIME_RULES: dict[str, Rule] = {
    "box": lambda b, at: {
        "BOX-DELIVERY-TIMESTAMP": iso(at),
        "BOX-SIGNATURE-PRIMARY": b64(mac(b + iso(at).encode())),
    },
    "calendly": lambda b, at: {
        "Calendly-Webhook-Signature": stripe_like(b, seconds(at)),
    },
    "close": lambda b, at: {
        "close-sig-timestamp": seconds(at),
        "close-sig-hash": mac(
            seconds(at).encode() + b, secret=bytes.fromhex(SECRET.decode())
        ).hex(),
    },
    "hubspot": lambda b, at: {
        "X-HubSpot-Request-Timestamp": millis(at),
        "X-HubSpot-Signature-v3": b64(mac(b"POST" + URL.encode() + b + millis(at).encode())),
    },
    "lob": lambda b, at: {
        "Lob-Signature-Timestamp": millis(at),
        "Lob-Signature": mac(millis(at).encode() + b"." + b).hex(),
    },
    "mux": lambda b, at: {
        "Mux-Signature": stripe_like(b, seconds(at)),
    },
    "paddle": lambda b, at: {
        "Paddle-Signature": f"ts={seconds(at)};h1={mac(seconds(at).encode() + b':' + b).hex()}",
    },
    "persona": lambda b, at: {
        "Persona-Signature": f"t={seconds(at)},v1={'0' * 64} {stripe_like(b, seconds(at))}",
    },
    "twitch": lambda b, at: {
        "Twitch-Eventsub-Message-Id": "befa7b53",
        "Twitch-Eventsub-Message-Timestamp": iso(at),
        "Twitch-Eventsub-Message-Signature": "sha256="
        + mac(b"befa7b53" + iso(at).encode() + b).hex(),
    },
    "workos": lambda b, at: {
        "WorkOS-Signature": f"t={millis(at)}, v1={mac(millis(at).encode() + b'.' + b).hex()}",
    },
    "zoom": lambda b, at: {
        "x-zm-request-timestamp": seconds(at),
        "x-zm-signature": "v0=" + mac(b"v0:" + seconds(at).encode() + b":" + b).hex(),
    },
}

TOKEN_RULES: dict[str, Rule] = {
    "gitlab": lambda b, _: {"X-Gitlab-Token": SECRET.decode()},
    "okta": lambda b, _: {"Authorization": SECRET.decode()},
    "pipedrive": lambda b, _: {"Authorization": "Basic " + b64(SECRET)},
    "telegram": lambda b, _: {"X-Telegram-Bot-Api-Secret-Token": SECRET.decode()},
    "token": lambda b, _: {"Authorization": SECRET.decode()},
}
