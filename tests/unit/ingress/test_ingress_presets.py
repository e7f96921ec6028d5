"""What each vendor's events are known by: sent again it is the same event, changed it is another.

Bodies are shortened from the vendors' own pages, which the modules of `ingress/schemes/` name.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import orjson
import pytest

from ingress.schemes import SCHEMES, Verified
from ingress.schemes.normalize import Normalized, Normalizer
from streams.errors import MalformedBody

SAMPLES = Path(__file__).parents[4] / "shared/samples/github"

STRIPE = {
    "id": "evt_1",
    "object": "event",
    "api_version": "2024-06-20",
    "created": 1_686_089_970,
    "type": "invoice.paid",
    "livemode": False,
    "pending_webhooks": 2,
    "data": {"object": {"id": "in_1", "object": "invoice", "status": "paid"}},
}
SHOPIFY = {
    "id": 820982911946154508,
    "admin_graphql_api_id": "gid://shopify/Order/820982911946154508",
    "created_at": "2021-12-31T19:00:00-05:00",
    "updated_at": "2021-12-31T19:00:01-05:00",
    "currency": "USD",
    "financial_status": "paid",
    "email": "jon@example.com",
}
SLACK = {
    "token": "z",
    "team_id": "T1",
    "api_app_id": "A1",
    "type": "event_callback",
    "event_id": "Ev08MFMKH6",
    "event_time": 1_234_567_890,
    "event": {"type": "message", "channel": "C1", "user": "U1", "event_ts": "1234567890.1"},
}
INTERCOM = {
    "type": "notification_event",
    "app_id": "a8",
    "id": "notif_1",
    "topic": "conversation.closed",
    "created_at": 1_392_731_331,
    "delivery_attempts": 1,
    "data": {"item": {"type": "conversation", "id": "30", "state": "closed"}},
}
LINEAR = {
    "action": "update",
    "type": "Issue",
    "createdAt": "2020-01-23T12:53:18.084Z",
    "data": {"id": "2174add1", "updatedAt": "2020-01-23T12:53:18.000Z", "identifier": "LIN-1"},
    "organizationId": "o1",
    "actor": {"id": "u1"},
    "webhookId": "w1",
    "webhookTimestamp": 1_677_611_643_000,
}
PAGERDUTY = {
    "event": {
        "id": "01BW",
        "event_type": "incident.resolved",
        "resource_type": "incident",
        "occurred_at": "2021-04-26T17:36:27.458Z",
        "data": {
            "id": "PGR0VU2",
            "type": "incident",
            "status": "resolved",
            "urgency": "high",
            "service": {"id": "PF9KMXH"},
        },
    }
}
DISCORD = {
    "id": "846462639134605312",
    "application_id": "8",
    "type": 2,
    "token": "t",
    "version": 1,
    "channel_id": "64",
    "guild_id": "29",
    "member": {"user": {"id": "53"}},
    "data": {"id": "77", "name": "cardsearch"},
}
ZENDESK = {
    "id": "2b24ef10",
    "type": "zen:event-type:ticket.created",
    "account_id": 1,
    "time": "2026-07-04T05:33:18Z",
    "subject": "zen:ticket:123",
    "detail": {"id": "123", "updated_at": "2026-07-04T05:33:18Z", "status": "OPEN"},
}
STANDARD = {
    "id": "evt_1",
    "type": "user.created",
    "timestamp": "2023-01-19T00:13:51Z",
    "data": {"id": "u1", "object": "user"},
}
GENERIC = {
    "id": "e1",
    "type": "a.b",
    "time": "2023-01-19T00:13:51Z",
    "subject": "s",
    "data": {"id": "d1"},
}
MESSAGE = {
    "MessageSid": "SM1",
    "MessageStatus": "delivered",
    "SmsSid": "SM1",
    "SmsStatus": "delivered",
    "AccountSid": "AC1",
    "From": "+1",
    "To": "+2",
    "ErrorCode": "",
}
CALL = {
    "CallSid": "CA1",
    "CallStatus": "completed",
    "SequenceNumber": "3",
    "AccountSid": "AC1",
    "Timestamp": "Tue, 31 Aug 2010 20:36:28 +0000",
}
COMMAND = {
    "command": "/weather",
    "text": "94070",
    "team_id": "T1",
    "channel_id": "C1",
    "user_id": "U1",
    "trigger_id": "13345224609.738474920.8088",
}
PRESS = {
    "type": "block_actions",
    "team": {"id": "T1"},
    "user": {"id": "U1"},
    "channel": {"id": "C1"},
    "trigger_id": "12321423423.333649436676.d8c",
    "actions": [{"action_ts": "1548426417.840180"}],
}


def normalized(
    scheme: str, body: bytes, verified: Verified | None = None, **headers: str
) -> Normalized:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Normalizer(scheme, {}).normalize(named, body, verified)


def key(scheme: str, document: dict[str, Any], **more: Any) -> str:
    return normalized(scheme, encoded(scheme, document), **more).dedup_key


def encoded(scheme: str, document: dict[str, Any]) -> bytes:
    return urlencode(document).encode() if scheme == "twilio" else orjson.dumps(document)


@pytest.mark.parametrize(
    ("scheme", "document", "event_type", "subject", "occurred_at", "dedup_key"),
    [
        ("stripe", STRIPE, "invoice.paid", "in_1", 1_686_089_970_000, "evt_1"),
        ("slack", SLACK, "message", "C1", 1_234_567_890_000, "Ev08MFMKH6"),
        ("zendesk", ZENDESK, "ticket.created", "123", 1_783_143_198_000, "2b24ef10"),
        ("twilio", MESSAGE, "message.delivered", "SM1", None, '["SM1","delivered"]'),
        ("twilio", CALL, "call.completed", "CA1", 1_283_286_988_000, '["CA1","completed","3"]'),
        ("discord", DISCORD, "interaction.2", "64", None, "846462639134605312"),
        ("intercom", INTERCOM, "conversation.closed", "30", 1_392_731_331_000, "notif_1"),
        (
            "linear",
            LINEAR,
            "Issue.update",
            "2174add1",
            1_579_783_998_084,
            '["Issue","update","2174add1","2020-01-23T12:53:18.000Z","2020-01-23T12:53:18.084Z"]',
        ),
        ("pagerduty", PAGERDUTY, "incident.resolved", "PGR0VU2", 1_619_458_587_458, "01BW"),
        ("standard-webhooks", STANDARD, "user.created", "u1", 1_674_087_231_000, "evt_1"),
        ("hmac-sha256", GENERIC, "a.b", "s", 1_674_087_231_000, "e1"),
        ("ed25519", GENERIC, "a.b", "s", 1_674_087_231_000, "e1"),
        ("jwt", GENERIC, "a.b", "s", 1_674_087_231_000, "e1"),
    ],
)
def test_a_vendors_event_gives_its_fields(
    scheme: str,
    document: dict[str, Any],
    event_type: str,
    subject: str,
    occurred_at: int | None,
    dedup_key: str,
) -> None:
    fields = normalized(scheme, encoded(scheme, document))
    found = (fields.event_type, fields.subject, fields.occurred_at, fields.dedup_key)
    assert found == (event_type, subject, occurred_at, dedup_key)


def test_a_shopify_topic_names_the_event_and_takes_no_part_in_its_key() -> None:
    body = orjson.dumps(SHOPIFY)
    fields = normalized("shopify", body, X_Shopify_Topic="orders/paid", X_Shopify_Webhook_Id="b5")
    assert (fields.event_type, fields.delivery_id) == ("orders.paid", "b5")
    assert fields.subject == "gid://shopify/Order/820982911946154508"
    assert fields.occurred_at == 1_640_995_201_000
    other = normalized("shopify", body, X_Shopify_Topic="orders/create", X_Shopify_Webhook_Id="b6")
    assert other.dedup_key == fields.dedup_key == key("shopify", SHOPIFY)
    assert "jon@example.com" not in str(fields.attributes)


AGAIN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "stripe": (STRIPE, {"pending_webhooks": 1}),
    "slack": (SLACK, {"token": "rotated"}),
    "intercom": (INTERCOM, {"delivery_attempts": 2}),
    "linear": (LINEAR, {"webhookTimestamp": 1_677_611_999_000, "webhookId": "w1"}),
    "pagerduty": (PAGERDUTY, {"version": 2}),
    "discord": (DISCORD, {"token": "u"}),
    "zendesk": (ZENDESK, {"zendesk_event_version": "2022-11-06"}),
    "twilio": (MESSAGE, {"ApiVersion": "2010-04-01"}),
    "standard-webhooks": (STANDARD, {"attempt": 2}),
    "hmac-sha256": (GENERIC, {"attempt": 2}),
}


@pytest.mark.parametrize("scheme", AGAIN)
def test_the_same_event_written_anew_under_another_delivery_keeps_its_key(scheme: str) -> None:
    document, changes = AGAIN[scheme]
    anew = encoded(scheme, dict(reversed(list((document | changes).items()))))
    header = SCHEMES[scheme].preset.delivery_header or "X-Delivery"
    first = Normalizer(scheme, {}).normalize(
        {header: "d1"}, encoded(scheme, document), Verified(0, 1.0, "msg_1")
    )
    second = Normalizer(scheme, {}).normalize({header: "d2"}, anew, Verified(0, 2.0, "msg_2"))
    assert first.payload_hash != second.payload_hash
    assert first.dedup_key == second.dedup_key
    assert not first.dedup_key.startswith("sha256:")


TRIGGER = {"id": "4711", "status": "open"}
"""The body of a Zendesk trigger is its administrator's own; `id` is mostly the ticket's."""
REVISED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("shopify", SHOPIFY, {"financial_status": "refunded"}),
    ("zendesk", TRIGGER, {"status": "solved"}),
    ("zendesk", TRIGGER | {"type": "incident", "detail": "slow"}, {"status": "solved"}),
    (
        "zendesk",
        TRIGGER | {"type": 7, "detail": {"id": "4711", "updated_at": "1"}},
        {"status": "solved"},
    ),
    ("hmac-sha256", TRIGGER, {"status": "solved"}),
    ("hmac-sha256", TRIGGER | {"type": "ticket"}, {"status": "solved"}),
    ("jwt", TRIGGER, {"status": "solved"}),
    ("ed25519", {"event_id": "concert_1", "seats": 4}, {"seats": 3}),
    ("standard-webhooks", {"event_id": "concert_1", "seats": 4}, {"seats": 3}),
    ("linear", LINEAR, {"data": {"id": "2174add1", "updatedAt": "2020-01-23T12:53:19.000Z"}}),
    ("linear", LINEAR, {"createdAt": "2020-01-23T12:53:19.000Z"}),
    ("linear", LINEAR, {"action": "remove"}),
    ("linear", LINEAR, {"type": "Comment"}),
    ("zendesk", ZENDESK | {"id": None}, {"detail": {"id": "123", "updated_at": "later"}}),
    ("twilio", MESSAGE, {"MessageStatus": "read"}),
    ("twilio", CALL, {"SequenceNumber": "4"}),
]


@pytest.mark.parametrize(("scheme", "document", "changes"), REVISED)
def test_a_changed_revision_of_an_entity_is_another_event(
    scheme: str, document: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert key(scheme, document) != key(scheme, document | changes)


@pytest.mark.parametrize(
    ("scheme", "document"),
    [
        ("shopify", {"id": 1}),
        ("twilio", {"CallSid": "CA1", "CallStatus": "in-progress", "Digits": "1"}),
        ("twilio", {"MessageSid": "SM1"}),
        ("linear", {"action": "update", "type": "Issue", "data": {"id": "1"}}),
        ("discord", {"type": 1, "event": {"type": "ENTITLEMENT_CREATE", "timestamp": "t"}}),
        ("zendesk", {"detail": {"id": "1"}, "type": "t"}),
        ("standard-webhooks", {"id": "invoice_1", "type": "invoice.paid", "status": "paid"}),
    ],
)
def test_an_entity_alone_is_no_key(scheme: str, document: dict[str, Any]) -> None:
    assert key(scheme, document).startswith("sha256:")


def test_a_standard_webhook_without_an_events_id_is_known_by_its_signed_message_id() -> None:
    body = orjson.dumps({"type": "invoice.paid", "id": "invoice_1"})
    found = normalized("standard-webhooks", body, Verified(0, 1.0, "msg_1"), webhook_id="msg_2")
    assert found.dedup_key == "msg_1"
    again = normalized("standard-webhooks", body + b" ", Verified(0, 2.0, "msg_1"))
    assert again.dedup_key == "msg_1"


def test_slacks_forms_are_read() -> None:
    command = normalized("slack", urlencode(COMMAND).encode())
    assert (command.event_type, command.subject) == ("slash_command", "C1")
    assert command.dedup_key == COMMAND["trigger_id"]
    assert command.attributes["command"] == "/weather"
    press = normalized("slack", urlencode({"payload": orjson.dumps(PRESS)}).encode())
    assert (press.event_type, press.subject) == ("block_actions", "C1")
    assert press.dedup_key == PRESS["trigger_id"]
    assert press.occurred_at == 1_548_426_417_840
    with pytest.raises(MalformedBody, match="not JSON"):
        normalized("slack", b"payload=%7B")


def test_githubs_form_is_the_event_that_its_field_payload_holds() -> None:
    body = orjson.dumps({"action": "opened", "repository": {"full_name": "a/b c&d"}})
    form = b"payload=" + quote_plus(body).encode()
    found, plain = (
        normalized("github", sent, X_GitHub_Event="issues", X_GitHub_Delivery="d-1")
        for sent in (form, body)
    )
    assert found.event_type == plain.event_type == "issues.opened"
    assert found.subject == "a/b c&d"
    assert found.attributes == plain.attributes
    assert found.delivery_id == "d-1"
    assert found.dedup_key == plain.dedup_key, "one event, also if the content type was changed"
    assert found.payload_hash == hashlib.sha256(form).digest()


@pytest.mark.parametrize(
    ("event", "entity"),
    [
        ("check_suite", {"id": 7, "conclusion": "failure"}),
        ("check_run", {"id": 1, "check_suite": {"id": 7}, "conclusion": "failure"}),
        ("workflow_run", {"id": 2, "check_suite_id": 7, "conclusion": "failure"}),
    ],
)
def test_events_of_one_check_suite_of_github_are_found_by_its_id(
    event: str, entity: dict[str, Any]
) -> None:
    body = orjson.dumps({"action": "completed", event: entity})
    found = normalized("github", body, X_GitHub_Event=event)
    ends = {"action": "completed", "check_suite": "7", "conclusion": "failure"}
    assert found.attributes == ends


@pytest.mark.parametrize("body", [b"a=1", b"payload=1&payload=2", b"payload", b"payload=%7B"])
def test_a_form_without_one_readable_payload_is_no_event_of_github(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        normalized("github", body)


def test_another_content_type_does_not_make_another_event_of_a_captured_body() -> None:
    body = orjson.dumps(SLACK)
    form = normalized("slack", body, Content_Type="application/x-www-form-urlencoded")
    assert form.dedup_key == "Ev08MFMKH6"


def test_no_other_preset_takes_a_form_or_no_body() -> None:
    for scheme, declared in SCHEMES.items():
        preset = declared.preset
        fields = preset.form in ("fields", "either")
        for body, taken in ((b"a=1", fields), (b"", fields or preset.may_be_empty)):
            if taken:
                assert normalized(scheme, body).dedup_key.startswith("sha256:")
            else:
                with pytest.raises(MalformedBody):
                    normalized(scheme, body)


def test_zendesk_deliveries_without_a_body_are_told_apart_by_when_they_were_signed() -> None:
    keys = [normalized("zendesk", b"", Verified(0, at)).dedup_key for at in (5.0, 5.0, 6.0)]
    assert keys == ["sent:5000", "sent:5000", "sent:6000"]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}")
def test_every_sample_of_github_is_normalized_and_is_an_event_of_its_own() -> None:
    """All 184 files; one, in a folder named `index.json`, is empty: its key is the hash of that."""
    keys = set()
    bodies = list(SAMPLES.glob("*/*.json"))
    for path in bodies:
        found = normalized("github", path.read_bytes(), X_GitHub_Event=path.parent.name)
        assert found.event_type.startswith(path.parent.name)
        keys.add(found.dedup_key)
    assert len(keys) == len(bodies) == 184
