"""What vendors publish as signed by themselves: secret, body and headers, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vector:
    """One signed request; `now` is the clock at which it is fresh."""

    scheme: str
    secret: bytes
    headers: dict[str, str]
    body: bytes
    now: float = 0.0
    url: str = ""
    options: dict[str, object] = field(default_factory=dict)


GITHUB = Vector(
    "github",
    b"It's a Secret to Everybody",
    {
        "X-Hub-Signature-256": (
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        )
    },
    b"Hello, World!",
)
"""docs.github.com, "Validating webhook deliveries"."""

SLACK = Vector(
    "slack",
    b"8f742231b10e8888abcd99yyyzzz85a5",
    {
        "X-Slack-Signature": (
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        ),
        "X-Slack-Request-Timestamp": "1531420618",
    },
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    1_531_420_618,
)
"""docs.slack.dev, "Verifying requests from Slack"."""

STRIPE = Vector(
    "stripe",
    b"webhook_secret",
    {
        "Stripe-Signature": (
            "t=1533204620,"
            "v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7,"
            "v0=63f3a72374a733066c4be69ed7f8e5ac85c22c9f0a6a612ab9a025a9e4ee7eef"
        )
    },
    b"""{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "cus_123",
      "object": "customer",
      "created": 123456789,
      "email": "test@stripe.com",
      "livemode": false,
      "metadata": {}
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "customer.created"
}
""",
    1_533_204_620,
)
"""stripe-dotnet, EventUtilityTest and its event_test_signature.json."""

_TWILIO_URL = "https://mycompany.com/myapp.php?foo=1&bar=2"
_TWILIO_FORM = (
    b"To=%2B18005551212&Digits=1234&From=%2B14158675309"
    b"&Caller=%2B14158675309&CallSid=CA1234567890ABCDE"
)


def _twilio(signature: str, body: bytes, url: str) -> Vector:
    return Vector("twilio", b"12345", {"X-Twilio-Signature": signature}, body, url=url)


TWILIO = _twilio("RSOYDt4T1cUTdK1PDd93/VVr8B8=", _TWILIO_FORM, _TWILIO_URL)
"""twilio.com/docs/usage/security; this and those below also in twilio-python's, -csharp's and
-php's tests of their request validators."""

TWILIO_OTHERS = {
    "the port of https is added": _twilio(
        "kvajT1Ptam85bY51eRf/AJRuM3w=", _TWILIO_FORM, _TWILIO_URL
    ),
    "the port of http is added": _twilio(
        "0ZXoZLH/DfblKGATFgpif+LLRf4=", _TWILIO_FORM, _TWILIO_URL.replace("https", "http")
    ),
    "a port is dropped": _twilio(
        "RSOYDt4T1cUTdK1PDd93/VVr8B8=", _TWILIO_FORM, _TWILIO_URL.replace(".com", ".com:1234")
    ),
    "a port is kept": _twilio(
        "CYn1h0gLBdNxDGkKJg6hYohgeD8=", _TWILIO_FORM, _TWILIO_URL.replace(".com", ".com:1234")
    ),
    "the host's case is kept": _twilio(
        "g9IN/x4Cft2g517EjYvEvM/W7LU=",
        _TWILIO_FORM,
        "https://MyCompany.com/myapp.php?foo=1&bar=2",
    ),
    "credentials in the URL are kept": _twilio(
        "PJ08CxXr7KLPjEQCTc8LkUSMwSM=",
        _TWILIO_FORM,
        "http://username:password@MyCompany.com/myapp.php?foo=1&bar=2",
    ),
    "a key is repeated": _twilio(
        "IK+Dwps556ElfBT0I3Rgjkr1wJU=",
        b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
        _TWILIO_URL,
    ),
    "JSON by its hash": _twilio(
        "a9nBmqA0ju/hNViExpshrM61xv4=",
        b'{"property": "value", "boolean": true}',
        f"{_TWILIO_URL}&bodySHA256="
        "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
    ),
    "JSON by its hash alone": _twilio(
        "y77kIzt2vzLz71DgmJGsen2scGs=",
        b'{"property": "value", "boolean": true}',
        "https://mycompany.com/myapp.php?bodySHA256="
        "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620",
    ),
}

PAGERDUTY = Vector(
    "pagerduty",
    b"lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK",
    {
        "X-PagerDuty-Signature": (
            "v1=0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd"
        )
    },
    b'{"event":{"id":"01BWDWL3NYY7LUFPZCC28QUCMK","event_type":"incident.priority_updated",'
    b'"resource_type":"incident","occurred_at":"2021-04-26T17:36:27.458Z","agent":{"html_url":'
    b'"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":'
    b'"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Engineer","type":'
    b'"user_reference"},"client":null,"data":{"id":"PGR0VU2","type":"incident","self":'
    b'"https://api.pagerduty.com/incidents/PGR0VU2","html_url":'
    b'"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,"status":"triggered","title":'
    b'"A little bump in the road","service":{"html_url":'
    b'"https://acme.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":'
    b'"https://api.pagerduty.com/services/PF9KMXH","summary":"API Service","type":'
    b'"service_reference"},"assignees":[{"html_url":'
    b'"https://acme.pagerduty.com/users/PTUXL6G","id":"PTUXL6G","self":'
    b'"https://api.pagerduty.com/users/PTUXL6G","summary":"User 123","type":"user_reference"}],'
    b'"escalation_policy":{"html_url":"https://acme.pagerduty.com/escalation_policies/PUS0KTE",'
    b'"id":"PUS0KTE","self":"https://api.pagerduty.com/escalation_policies/PUS0KTE","summary":'
    b'"Default","type":"escalation_policy_reference"},"teams":[{"html_url":'
    b'"https://acme.pagerduty.com/teams/PFCVPS0","id":"PFCVPS0","self":'
    b'"https://api.pagerduty.com/teams/PFCVPS0","summary":"Engineering","type":'
    b'"team_reference"}],"priority":{"html_url":'
    b'"https://acme.pagerduty.com/account/incident_priorities","id":"PSO75BM","self":'
    b'"https://api.pagerduty.com/priorities/PSO75BM","summary":"P1","type":'
    b'"priority_reference"},"urgency":"high","conference_bridge":{"conference_number":1000,'
    b'"conference_url":"https://example.com"},"resolve_reason":null}}}',
)
"""go-pagerduty (PagerDuty's own), webhookv3/webhookv3_test.go."""

SHOPIFY = Vector(
    "shopify",
    b"test-webhook-secret",
    {"X-Shopify-Hmac-SHA256": "QNyObTlKbMx2qDlPF/ZOZcBqg5OgPg+2oky3zldc0Gw="},
    b'{"id":1234567890,"email":"customer@example.com","total_price":"123.45"}',
)
"""Shopify publishes none; this is what SQLPage, an independent implementation, tests its own
verification of Shopify's webhooks with (examples of `sqlpage.hmac`)."""

PUBLISHED = {
    "github": GITHUB,
    "slack": SLACK,
    "stripe": STRIPE,
    "twilio": TWILIO,
    "pagerduty": PAGERDUTY,
    "shopify": SHOPIFY,
    **TWILIO_OTHERS,
}
