"""A message has one form in each format, whatever its body is."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from support.outgoing import MESSAGE, document, rendered

from streams.delivery.message.formats import Format, Rendered, render
from streams.delivery.message.message import Message

ODD_BODIES = [
    b"\xff",
    b'"\xed\xa0\x80"',
    b'"\\ud800"',
    b"NaN",
    b"1e400",
    b"\xef\xbb\xbf{}",
    b"",
    b" ",
    b"1,2",
    b'1,"id":"stolen"',
    b'{}},{"id":"stolen"',
    b"1],[2",
    b"{",
    b"[" * 1024 + b"]" * 1024,
]
"""Bodies that are no JSON, or none that every receiver reads."""

messages = st.builds(
    Message,
    message_id=st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True),
    tenant_id=st.text(min_size=1, max_size=8),
    type=st.text(max_size=8),
    source=st.text(min_size=1, max_size=8),
    subject=st.none() | st.text(st.characters(), max_size=8),
    time=st.integers(-(2**63), 2**63 - 1),
    content_type=st.sampled_from(["application/json", "text/plain", "", "a/b+json; x=1"])
    | st.text(max_size=20),
    data=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5), st.lists, max_leaves=5
    ).map(lambda value: json.dumps(value).encode()),
    attributes=st.dictionaries(
        st.text(max_size=8), st.text(st.characters(), max_size=8), max_size=4
    ),
    traceparent=st.none() | st.text(max_size=8),
)


def data_of(body: bytes) -> bytes:
    """The bytes behind the last member, `data`."""
    return body.split(b'"data":', 1)[1][:-1]


def test_the_document_is_this_one() -> None:
    assert render(MESSAGE, "cloudevents", None) == Rendered(
        b'{"specversion":"1.0","id":"evt_1","source":"/tenants/acme/sources/helpdesk",'
        b'"type":"ticket.created","subject":"42","time":"2026-09-21T14:13:20.123Z",'
        b'"datacontenttype":"application/json",'
        b'"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",'
        b'"customerid":"c1",'
        b'"data":{"z": 1.10, "a": 12345678901234567890123, "z2": "\xc3\xa9\\u00e9"}}',
        "application/cloudevents+json",
    )


@pytest.mark.parametrize("body", [b'{"a":1,"a":2}', b" [1.10]\n", b'"x"', b"null", b"-0.0"])
def test_json_stands_in_the_document_byte_for_byte(body: bytes) -> None:
    assert data_of(rendered(data=body)) == body


@pytest.mark.parametrize("body", ODD_BODIES)
def test_a_body_that_not_every_receiver_reads_as_json_is_given_in_base64(body: bytes) -> None:
    found = document(data=body)
    assert base64.b64decode(found["data_base64"]) == body
    assert "data" not in found
    assert found["id"] == "evt_1"
    assert found["datacontenttype"] == "application/json"


def test_a_form_is_given_in_base64_and_keeps_its_type() -> None:
    form = "application/x-www-form-urlencoded"
    found = document(data=b"a=1&b=2", content_type=form)
    assert (found["datacontenttype"], base64.b64decode(found["data_base64"])) == (form, b"a=1&b=2")


def test_an_object_of_another_type_is_json_and_a_bare_number_is_not() -> None:
    for content_type in ("text/plain", "", "application/x-www-form-urlencoded"):
        found = document(data=b' {"a":1}', content_type=content_type)
        assert (found["data"], found["datacontenttype"]) == ({"a": 1}, "application/json")
    assert "data_base64" in document(data=b"1", content_type="text/plain")
    typed = "application/vnd.api+json; charset=utf-8"
    assert document(content_type=typed)["datacontenttype"] == typed


@pytest.mark.parametrize("content_type", ["", "json", "a/b\r\nX-Evil: 1", "text/plain\n"])
def test_what_is_no_media_type_is_told_as_octets(content_type: str) -> None:
    assert document(data=b"x", content_type=content_type)["datacontenttype"] == (
        "application/octet-stream"
    )


def test_attributes_become_extensions_and_none_is_lost() -> None:
    found = document(
        attributes={
            "Customer-ID": "a",
            "customer_id": "b",
            "type": "c",
            "\u00e4": "d",
            "data": "e",
            "id": "f\x00\ud800\uffff\U0001ffff!",
        }
    )
    assert (found["customerid"], found["customerid2"]) == ("a", "b")
    assert (found["type"], found["type2"]) == ("ticket.created", "c")
    assert (found["attribute"], found["data2"], found["id2"]) == ("d", "e", "f!")


def test_names_in_the_source_cannot_reach_another_path() -> None:
    found = document(tenant_id="a/b?", source="../c d")
    assert found["source"] == "/tenants/a%2Fb%3F/sources/..%2Fc%20d"


def test_what_is_missing_is_left_out() -> None:
    found = document(subject=None, traceparent=None, attributes={}, time=2**62)
    assert set(found) == {"specversion", "id", "source", "type", "datacontenttype", "data"}


def test_raw_is_the_body_as_it_came() -> None:
    message = replace(MESSAGE, data=b"\xff\x00a", content_type="text/x; a=b")
    assert render(message, "raw", None) == Rendered(b"\xff\x00a", "text/x; a=b")
    for odd in ("", "a\r\nX-Evil: 1", "\u00e9"):
        changed = replace(message, content_type=odd)
        assert render(changed, "raw", None).content_type == "application/octet-stream"


@settings(deadline=None)
@given(messages)
def test_any_message_is_a_cloud_event_that_its_package_reads(message: Message) -> None:
    made = render(message, "cloudevents", None)
    event = from_structured_event(
        HTTPMessage({"content-type": made.content_type}, made.body), JSONFormat()
    )
    assert event.get_id() == message.message_id
    found: dict[str, Any] = json.loads(made.body)
    assert all(re.fullmatch("[a-z0-9]+|data_base64", name) for name in found)
    if "data_base64" in found:
        assert base64.b64decode(found["data_base64"]) == message.data
    else:
        assert json.loads(message.data) == found["data"]


@settings(deadline=None)
@given(messages, st.sampled_from(get_args(Format)))
def test_equal_messages_give_equal_bytes(message: Message, format_: Format) -> None:
    again = replace(message, attributes=dict(reversed(list(message.attributes.items()))))
    assert render(message, format_, "@") == render(again, format_, "@")
