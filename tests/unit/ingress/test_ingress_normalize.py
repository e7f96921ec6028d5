"""What an envelope says of a body, and what it falls back to."""

from __future__ import annotations

import hashlib

import orjson
import pytest
from multidict import CIMultiDict
from support.webhooks import ticket

from ingress.schemes import Verified
from ingress.schemes.normalize import Normalizer, visible
from streams.errors import ConfigError, MalformedBody, Misfit

ZENDESK = Normalizer("zendesk", {})
GITHUB = Normalizer("github", {})
GENERIC = Normalizer("hmac-sha256", {})


def hash_key(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def test_a_zendesk_event_gives_its_type_entity_id_and_time() -> None:
    body = ticket("2b24ef10")
    fields = ZENDESK.normalize({"X-Zendesk-Webhook-Invocation-Id": "835"}, body)
    assert fields.event_type == "ticket.created"
    assert fields.subject == "123"
    assert fields.dedup_key == "2b24ef10"
    assert fields.occurred_at == 1_783_143_198_000
    assert fields.delivery_id == "835"
    assert fields.payload_hash == hashlib.sha256(body).digest()
    assert fields.attributes == {
        "account_id": "12514403",
        "resource": "zen:ticket:123",
        "status": "OPEN",
        "updated_at": "2026-07-04T05:33:18Z",
    }


@pytest.mark.parametrize("missing", [None, ""])
def test_a_zendesk_event_without_id_is_known_by_type_entity_and_revision(missing: object) -> None:
    keys = {
        ZENDESK.normalize({}, body).dedup_key
        for body in (
            ticket("x", id=missing),
            ticket("x", id=missing, account_id=2),
            ticket("x", id=missing, type="zen:event-type:ticket.merged"),
            ticket("x", id=missing, detail={"id": "123", "updated_at": "2026-07-05T00:00:00Z"}),
        )
    }
    assert len(keys) == 3


def test_a_zendesk_event_without_id_and_revision_is_known_by_its_bytes() -> None:
    body = ticket("x", id=None, detail={"id": "123"})
    assert ZENDESK.normalize({}, body).dedup_key == hash_key(body)


def test_a_github_event_is_named_by_header_and_action_and_known_by_its_bytes() -> None:
    body = b'{"action":"opened","issue":{"number":7},"repository":{"full_name":"o/r"}}'
    headers = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": "72d3162e"}
    fields = GITHUB.normalize(headers, body)
    assert fields.event_type == "issues.opened"
    assert fields.dedup_key == hash_key(body)
    assert fields.subject == "o/r"
    assert fields.delivery_id == "72d3162e"
    assert fields.attributes == {"action": "opened", "number": "7", "repository": "o/r"}


def test_githubs_unsigned_headers_never_change_the_dedup_key() -> None:
    body = b'{"zen":"Design for failure."}'
    one = GITHUB.normalize({"X-GitHub-Event": "ping", "X-GitHub-Delivery": "1"}, body)
    two = GITHUB.normalize({"X-GitHub-Event": "push", "X-GitHub-Delivery": "2"}, body)
    assert one.event_type == "ping"
    assert one.dedup_key == two.dedup_key


@pytest.mark.parametrize("name", ["", "issues\n", "a" * 65, "é"])
def test_a_github_event_name_that_is_none_is_unknown(name: str) -> None:
    assert GITHUB.normalize({"X-GitHub-Event": name}, b"{}").event_type == "unknown"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"id":"a","type":"t","data":{"id":"d"}}', "a"),
        (b'{"id":7,"event":"t","data":[1]}', "7"),
        (b'{"id":18446744073709551615,"type":"t","data":1}', "18446744073709551615"),
        (b'{"event_id":"b","event_type":"t","data":{"id":"d"}}', "b"),
        (b'{"specversion":"1.0","source":"/s","id":"c","type":"t"}', '["/s","c"]'),
    ],
)
def test_a_generic_event_is_known_by_its_id_beside_its_type_and_data(body: bytes, key: str) -> None:
    assert GENERIC.normalize({}, body).dedup_key == key


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"id":""}',
        b'{"id":null}',
        b'{"id":true}',
        b'{"id":{"a":1}}',
        b'{"id":[]}',
        b'{"id":["a",null]}',
        b'{"id":4711,"status":"open"}',
        b'{"event_id":"concert"}',
        b'{"specversion":"1.0","id":"c"}',
        b"[1]",
        b'"text"',
        b"7",
    ],
)
def test_without_a_usable_id_an_event_is_known_by_its_bytes(body: bytes) -> None:
    fields = GENERIC.normalize({}, body)
    assert (fields.dedup_key, fields.event_type) == (hash_key(body), "unknown")


def test_ids_past_64_bits_do_not_fall_together() -> None:
    """As fractions, these two would be the same one."""
    ids = ("123456789012345678901", "123456789012345678902")
    for id_ in ids:
        body = b'{"id":%b,"type":"t","data":"%b"}'
        once, again = (body % (id_.encode(), note) for note in (b"sent", b"sent again"))
        keys = {GENERIC.normalize({}, sent).dedup_key for sent in (once, again)}
        assert keys == {id_}


def test_a_long_id_is_shortened_without_falling_together_with_another() -> None:
    keys = {GENERIC.normalize({}, orjson.dumps({"id": "x" * 600 + end})).dedup_key for end in "ab"}
    assert len(keys) == 2
    assert max(map(len, keys)) < 100


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ('"2026-07-04T05:33:18Z"', 1_783_143_198_000),
        ('"2026-07-04T07:33:18.250+02:00"', 1_783_143_198_250),
        ('"2026-07-04T05:33:18"', 1_783_143_198_000),
        ("1783143198", 1_783_143_198_000),
        ("1783143198.5", 1_783_143_198_500),
        ("1783143198250", 1_783_143_198_250),
        ('"1783143198"', 1_783_143_198_000),
        ('"Sat, 04 Jul 2026 07:33:18 +0200"', 1_783_143_198_000),
        ('"Sat, 99 Jul 2026 07:33:18 +0200"', None),
        ('"Sat, 04 Jul 2026 07:33:18 +9999"', None),
        ('"Sat, 04 Xxx 2026 07:33:18 +0000"', None),
        ("true", None),
        ('"soon"', None),
        ("1e300", None),
        ("-1", None),
        ("{}", None),
    ],
)
def test_times_are_read_as_senders_write_them(text: str, milliseconds: int | None) -> None:
    fields = GENERIC.normalize({}, f'{{"time":{text}}}'.encode())
    assert fields.occurred_at == milliseconds


def test_an_event_type_loses_what_cloudevents_bars_and_what_is_too_long() -> None:
    body = orjson.dumps({"type": "ticket\n.\x00created\ufffe" + "x" * 300})
    event_type = GENERIC.normalize({}, body).event_type
    assert event_type.startswith("ticket.createdx")
    assert len(event_type) == 200


def test_a_mapping_stands_over_the_preset() -> None:
    mapping = {
        "event_type": "kind",
        "dedup_key": "[order, rev]",
        "subject": "order",
        "attributes": {"total": "total"},
    }
    normalizer = Normalizer("github", mapping)
    body = b'{"kind":"order.paid","order":5,"rev":"b","total":1.5}'
    fields = normalizer.normalize({"X-GitHub-Event": "push"}, body)
    assert fields.event_type == "order.paid"
    assert fields.dedup_key == '["5","b"]'
    assert fields.subject == "5"
    assert fields.attributes == {"total": "1.5"}


@pytest.mark.parametrize(
    ("mapping", "named"),
    [
        ({"tenant_id": "account"}, "mapping.tenant_id"),
        ({"subject": "a..b"}, "mapping.subject"),
        ({"subject": {"a": "b"}}, "mapping.subject"),
        ({"attributes": "a"}, "mapping.attributes"),
        ({"attributes": {"x": "a["}}, "mapping.attributes.x"),
    ],
)
def test_a_mapping_that_cannot_work_is_refused_by_name(mapping: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Normalizer("zendesk", mapping)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b"\xff",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b"[" * 5000 + b"]" * 5000,
        b"payload=%7B%7D",
    ],
)
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBody, match="not JSON"):
        GENERIC.normalize({}, body)


def test_a_dedup_key_nested_deep_gives_way_to_the_bodys_hash() -> None:
    keyed = Normalizer("hmac-sha256", {})

    def nested(levels: int) -> bytes:
        id_ = b"[" * levels + b'"a"' + b"]" * levels
        return b'{"type":"t","data":1,"id":' + id_ + b"}"

    assert keyed.normalize({}, nested(8)).dedup_key != hash_key(nested(8))
    assert keyed.normalize({}, nested(9)).dedup_key == hash_key(nested(9))
    assert keyed.normalize({}, nested(1_000)).dedup_key == hash_key(nested(1_000))


@pytest.mark.parametrize(
    ("field", "expression", "fits", "misfits"),
    [
        ("dedup_key", "order.id", b'{"order":{"id":7}}', b'{"id":"e1"}'),
        ("dedup_key", "[id, rev]", b'{"id":1,"rev":2}', b'{"id":1}'),
        ("event_type", "kind", b'{"kind":"paid"}', b'{"type":"paid"}'),
        ("event_type", "kind", b'{"kind":"paid"}', b'{"kind":7}'),
    ],
)
def test_only_what_the_sources_own_mapping_names_must_be_there(
    field: str, expression: str, fits: bytes, misfits: bytes
) -> None:
    own = Normalizer("hmac-sha256", {field: expression})
    own.normalize({}, fits)
    with pytest.raises(Misfit, match=f"mapping.{field}") as raised:
        own.normalize({}, misfits)
    assert raised.value.reason == field
    Normalizer("hmac-sha256", {"subject": "none", "occurred_at": "none"}).normalize({}, misfits)


@pytest.mark.parametrize("scheme", ["github", "standard-webhooks", "hmac-sha256", "zendesk"])
def test_a_source_may_identify_its_events_by_a_header(scheme: str) -> None:
    keyed = Normalizer(scheme, {}, "header:X-Run")
    body, verified = b'{"id":"e","type":"t","data":1}', Verified(0, 1.0, "msg_1")
    assert "X-Run" in keyed.headers, "the quarantine keeps it for the release"
    keys = [
        keyed.normalize(CIMultiDict({"x-run": run}), body, verified).dedup_key
        for run in ("1", "1", "2")
    ]
    assert keys == ["header:1", "header:1", "header:2"]
    for missing in ({}, {"x-run": "two words"}, {"x-run": ""}):
        with pytest.raises(Misfit, match="X-Run") as raised:
            keyed.normalize(CIMultiDict(missing), body, verified)
        assert raised.value.reason == "dedup_key"


def test_a_body_of_too_many_values_is_not_looked_into() -> None:
    dense = b'{"id":"e1","rows":[' + b"1," * 1_000_000 + b"1]}"
    with pytest.raises(Misfit, match="more than 1,000,000 values") as misfit:
        GENERIC.normalize({}, dense)
    assert misfit.value.reason == "too_many_values"


@pytest.mark.parametrize("text", [b"x" * 2_000_000, b"1," * 1_000_000, rb"\"[," * 500_000])
def test_a_long_text_is_one_value_whatever_stands_in_it(text: bytes) -> None:
    assert GENERIC.normalize({}, b'{"id":"e","type":"t","data":"' + text + b'"}').dedup_key == "e"


@pytest.mark.parametrize(
    ("given", "kept"), [("r" * 200, "r" * 200), ("r" * 201, None), ("a b", None), ("\xe9", None)]
)
def test_an_unsigned_header_is_kept_only_if_it_is_short_and_visible(
    given: str, kept: str | None
) -> None:
    assert visible(given) == kept
