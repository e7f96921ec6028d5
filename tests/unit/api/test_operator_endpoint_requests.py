"""Bodies that set an outgoing endpoint: what is taken, what is refused, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from streams.api.endpoints.endpoint_request import (
    MOST_GLOBS,
    MOST_HEADERS,
    EndpointRequest,
    EndpointRotation,
)
from streams.api.fields import validated
from streams.api.refusal import Refusal
from streams.tenants.endpoints import CALLBACKS, DEFAULT_RETRY

URL = "https://crm.example/hooks"


def endpoint(**body: Any) -> EndpointRequest:
    return validated({"url": URL} | body, EndpointRequest)


def faults(**body: Any) -> list[dict[str, str]]:
    with pytest.raises(Refusal) as refused:
        endpoint(**body)
    assert refused.value.status == 422
    found: list[dict[str, str]] = refused.value.extra["errors"]
    return found


def test_an_endpoint_of_its_url_alone_gets_everything_with_the_defaults() -> None:
    settings = endpoint().settings("crm", 7)
    assert (settings.url, settings.events, settings.sources) == (URL, ("*",), ("*",))
    assert (settings.retry, settings.format, settings.created_at) == (
        DEFAULT_RETRY,
        "cloudevents",
        7,
    )


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"events": []}, "events", "must have 1 to 100"),
        ({"events": ["*"] * (MOST_GLOBS + 1)}, "events", "must have 1 to 100"),
        ({"events": ["x" * 256]}, "events", "1 to 255"),
        ({"sources": ["a\nb"]}, "sources", "printable"),
        ({"retry": [1] * 51}, "retry", "at most 50"),
        ({"retry": [-1]}, "retry.0", "greater than or equal to 0"),
        ({"timeout_seconds": 61}, "timeout_seconds", "less than or equal to 60"),
        ({"rate": {"count": 0, "seconds": 1}}, "rate.count", "greater than or equal to 1"),
        ({"ordering": "random"}, "ordering", "parallel"),
        ({"format": "xml"}, "format", "cloudevents"),
        ({"format": "mapped"}, "mapping", "must be given"),
        ({"mapping": "id"}, "mapping", "format cloudevents has no mapping"),
        ({"format": "mapped", "mapping": "a["}, "mapping", "is no JMESPath"),
        ({"format": "mapped", "mapping": "a" * 1_001}, "mapping", "more than 1,000"),
        ({"format": "mapped", "mapping": "starts_wiht(id, 'a')"}, "mapping", "no function"),
        ({"description": "x" * 1_001}, "description", "at most 1000"),
        ({"created_at": 1}, "created_at", "there is no such field"),
        ({"secret": "a", "secret_ref": "env:A"}, "body", "exactly one of secret"),
        ({"secret_ref": "vault:a"}, "secret_ref", "env:NAME"),
    ],
)
def test_what_is_refused_is_named_with_its_field(
    body: dict[str, Any], field: str, said: str
) -> None:
    [fault] = faults(**body)
    assert fault["field"] == field
    assert said in fault["message"]


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Content-Type",
        "Webhook-Id",
        "webhook-anything",
        "Proxy-Authorization",
        "Accept-Encoding",
    ],
)
def test_headers_that_are_not_the_endpoint_s_to_set_are_refused(name: str) -> None:
    [fault] = faults(headers={name: "v"})
    assert fault["field"] == "headers"
    assert f"{name} is set by Tidegate" in fault["message"]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x\r\ny", "\u00e4", "a" * 129])
def test_what_is_no_name_of_a_header_is_refused(name: str) -> None:
    assert "is no name of a header" in faults(headers={name: "v"})[0]["message"]


@pytest.mark.parametrize("value", ["", "hidden\r\nX: y", "hidden\0", " hidden", "hidden\u00e4"])
def test_a_value_that_a_header_cannot_have_is_refused_and_not_repeated(value: str) -> None:
    [fault] = faults(headers={"X-Token": value})
    assert "the value of X-Token" in fault["message"]
    assert "hidden" not in fault["message"]


def test_headers_are_bounded_in_number_and_size() -> None:
    many = {f"x-{n}": "v" for n in range(MOST_HEADERS + 1)}
    with pytest.raises(Refusal, match="at most 32"):
        endpoint(headers=many).merged_headers({})
    with pytest.raises(Refusal, match="at most 8192"):
        endpoint(headers={"x": "v" * 8_192}).merged_headers({})
    assert "given twice" in faults(headers={"X-A": "1", "x-a": "2"})[0]["message"]


def test_a_header_keeps_its_value_where_none_is_given() -> None:
    before = {"Authorization": "Bearer t", "X-Team": "crm"}
    assert endpoint().merged_headers(before) == before
    assert endpoint(headers={}).merged_headers(before) == {}
    changed = endpoint(headers={"authorization": None, "X-New": "n"})
    assert changed.merged_headers(before) == {"authorization": "Bearer t", "X-New": "n"}
    assert [endpoint(headers=h).keeps_headers for h in (None, {}, {"A": None})] == [
        True,
        False,
        True,
    ]


def test_callbacks_alone_have_no_url() -> None:
    without = validated({}, EndpointRequest)
    assert without.settings(CALLBACKS, 1).url is None
    with pytest.raises(Refusal, match="url: must be given"):
        without.settings("crm", 1)
    with pytest.raises(Refusal, match="url: must not be given"):
        endpoint().settings(CALLBACKS, 1)


def test_neither_secret_nor_headers_are_part_of_the_settings_or_shown() -> None:
    wanted = endpoint(secret="whsec_hidden", headers={"X-Token": "hidden"})
    assert "hidden" not in repr(wanted) + wanted.settings("crm", 1).model_dump_json()


def test_an_overlap_lasts_a_day_unless_given_and_seven_at_most() -> None:
    assert validated({}, EndpointRotation).overlap_seconds == 86_400
    for seconds in (-1, 7 * 86_400 + 1, "60"):
        with pytest.raises(Refusal, match="overlap_seconds"):
            validated({"overlap_seconds": seconds}, EndpointRotation)
