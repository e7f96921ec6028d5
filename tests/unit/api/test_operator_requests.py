"""Bodies of calls: what is taken, what is refused, and how a submission is hashed."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from support.operator_cluster import make_job

from streams.api.dead_letters.job_replay import require_same
from streams.api.dead_letters.replay_request import ReplayRequest
from streams.api.fields import MAX_NOTE_BYTES
from streams.api.jobs.job_request import MAX_INPUT_BYTES, CancelRequest, JobRequest
from streams.api.refusal import Refusal, invalid_model
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.http.moments import rfc3339
from streams.tenants.settings import Rate, TenantSettings
from streams.tenants.source_keys import Reference
from streams.topology.load import load

NOW = 1_800_000_000_000
TOPOLOGY = load()


def job(**body: Any) -> JobRequest:
    return JobRequest.model_validate({"type": "t"} | body)


def source(**body: Any) -> SourceRequest:
    return SourceRequest.model_validate({"scheme": "github", "secret": "s"} | body)


def run_at(**body: Any) -> int | None:
    return job(**body).submission(TOPOLOGY, "", NOW, "operator").run_at


def test_times_become_milliseconds_and_never_earlier_ones() -> None:
    assert run_at() is None
    assert run_at(delay_seconds=1.5) is None
    assert run_at(run_at="2027-01-15T08:00:01.25Z") == NOW + 1_250
    assert run_at(run_at="2027-01-15T09:00:00.000001+01:00") == NOW + 1
    assert run_at(run_at="2000-01-01T00:00:00z") == 946_684_800_000


def test_a_delay_is_sent_as_it_was_asked_for_whatever_the_clock_says() -> None:
    for now in (0, NOW):
        for seconds, milliseconds in ((0, 0), (1.5, 1_500), (1.1, 1_100), (0.0001, 1)):
            submit = job(delay_seconds=seconds).submission(TOPOLOGY, "", now, "operator")
            assert (submit.run_at, submit.delay_ms) == (None, milliseconds)
    assert job().submission(TOPOLOGY, "", NOW, "operator").delay_ms is None


def stored(value: Any) -> int:
    return len(job(input=value).submission(TOPOLOGY, "", NOW, "operator").input)


def test_an_input_is_measured_as_it_is_kept() -> None:
    most = MAX_INPUT_BYTES
    assert stored("x" * (most - 2)) == most
    # 5 characters as sent, 18 as kept.
    numbers = orjson.loads("[" + "1e15," * (most // 19) + "0]")
    with pytest.raises(Refusal, match=f"at most {most}") as refused:
        stored([numbers, "x" * 30])
    assert (refused.value.status, refused.value.name) == (413, "body-too-large")
    with pytest.raises(Refusal, match=f"input has {most + 1} bytes"):
        stored("x" * (most - 1))
    with pytest.raises(Refusal, match=f"input has {most + 2} bytes"):
        stored("é" * (most // 2))


def test_what_else_lands_in_a_job_is_bounded_too() -> None:
    note = "n" * MAX_NOTE_BYTES
    assert ReplayRequest(incident_note=note).incident_note == note
    assert CancelRequest(reason=note).reason == note
    for text in (note + "n", "é" * (MAX_NOTE_BYTES // 2) + "n"):
        with pytest.raises(ValidationError, match=f"at most {MAX_NOTE_BYTES}"):
            ReplayRequest(incident_note=text)
        with pytest.raises(ValidationError, match=f"at most {MAX_NOTE_BYTES}"):
            CancelRequest(reason=text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2027-01-15",
        "2027-01-15T08:00:00",
        "2027-13-15T08:00:00Z",
        "20270115T080000Z",
        "2027-01-15T08:00:60Z",
        "1800000000",
        "２027-01-15T08:00:00Z",
    ],
)
def test_what_is_no_rfc_3339_time_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="run_at"):
        job(run_at=text)


@pytest.mark.parametrize(
    "text",
    [
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:30:00+01:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "9999-12-31T23:59:59.9999Z",
    ],
)
def test_a_time_that_no_answer_could_show_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="run_at"):
        job(run_at=text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_800_000_000_001, "2027-01-15T08:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_any_time_can_be_shown(milliseconds: int, text: str) -> None:
    assert rfc3339(milliseconds) == text


@pytest.mark.parametrize(
    "body",
    [
        {"type": 5},
        {"type": "a\nb"},
        {"type": "x" * 256},
        {"delay_seconds": -1},
        {"delay_seconds": True},
        {"delay_seconds": "5"},
        {"timeout_seconds": 0},
        {"timeout_seconds": 1e999},
        {"dedup_key": ""},
        {"tenant_id": "globex"},
        {"callback_url": "//host"},
        {"callback_url": "https://u:p@host/"},
        {"callback_url": "https://[bad"},
        {"workflow_id": ""},
    ],
)
def test_a_wrong_field_is_refused(body: dict[str, Any]) -> None:
    (field,) = body
    with pytest.raises(ValidationError, match=field):
        job(**body)


def test_an_input_nested_deeper_than_can_be_written_is_refused() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValidationError, match="nested too deep"):
        job(input=deep)
    shallow = deep
    while isinstance(shallow, list) and len(json.dumps(shallow)) > 400:
        shallow = shallow[0]
    assert job(input=shallow).submission(TOPOLOGY, "", NOW, "operator").input.startswith("[[")


def test_an_integer_that_would_not_be_kept_exactly_is_refused() -> None:
    with pytest.raises(ValidationError, match="more than 64 bits: write it as a string"):
        job(input={"id": 2**64})
    assert job(input=2**64 - 1).submission(TOPOLOGY, "", NOW, "operator").input == str(2**64 - 1)


def test_the_hash_is_of_the_meaning_not_of_the_text() -> None:
    assert job(input={"a": 1, "b": 2}).digest() == job(input={"b": 2, "a": 1}).digest()
    assert job().digest() == job(priority=None).digest()
    bodies: list[dict[str, Any]] = [
        {},
        {"input": 1},
        {"input": "1"},
        {"priority": "batch"},
        {"delay_seconds": 1},
        {"workflow_id": "w"},
        {"dedup_key": "d"},
        {"timeout_seconds": 1},
    ]
    assert len({job(**body).digest() for body in bodies}) == len(bodies)


def test_a_delayed_submission_hashes_alike_whenever_it_is_sent() -> None:
    early = job(delay_seconds=5).submission(TOPOLOGY, "", NOW, "operator")
    late = job(delay_seconds=5).submission(TOPOLOGY, "", NOW + 60_000, "operator")
    assert early.request_hash == late.request_hash
    assert early == late


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"scheme": "md5"}, "is not one of standard-webhooks, stripe, github"),
        ({"secret_ref": "env:X"}, "exactly one"),
        ({"secret": ""}, "secret"),
        ({"dedup_by": "header:"}, "dedup_by"),
        ({"dedup_by": "body"}, "dedup_by"),
        ({"dedup_by": "request", "mapping": {"dedup_key": "a"}}, "remove mapping.dedup_key"),
        ({"mapping": {"subject": "a.[b"}}, "subject: 'a.\\[b' is no JMESPath"),
        ({"mapping": {"subject": "(" * 499 + "a" + ")" * 499}}, "subject: is nested too deep"),
        ({"mapping": {"subject": "||".join("a" * 2_000)}}, "subject: has more than 1,000"),
        ({"mapping": {"tenant_id": "a"}}, "tenant_id: takes"),
        ({"mapping": {"subject": {"a": "b"}}}, "subject: takes"),
        ({"mapping": {"attributes": {"x": "]"}}}, "attributes.x"),
        ({"mapping": {"attributes": "x"}}, "attributes: takes"),
        ({"callback_url": "file:///etc/passwd"}, "callback_url"),
        (
            {"options": {"prefix": "v1="}},
            "options.prefix: there is none; .* takes no",
        ),
        (
            {"scheme": "hmac-sha256", "options": {"headr": "X"}},
            "there is none; this scheme takes webhook_origin, header",
        ),
        ({"scheme": "hmac-sha256", "options": {"signed": "{url}"}}, "options.signed: without"),
        ({"scheme": "zendesk", "options": {"tolerance_seconds": 0}}, "options.tolerance_seconds"),
        ({"tenant_id": "globex"}, "tenant_id"),
    ],
)
def test_a_wrong_source_is_refused_by_name(body: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        source(**body)


def test_a_refusal_names_every_fault_and_repeats_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        source(secret=12345678, scheme="md5", colour="top-secret-value")
    refusal = invalid_model(caught.value)
    fields = [each["field"] for each in refusal.extra["errors"]]
    assert sorted(fields) == ["colour", "scheme", "secret"]
    assert "top-secret-value" not in refusal.detail
    assert "12345678" not in refusal.detail


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"typ": 1}, "typ: there is no such field"),
        ({"scheme": 5}, "scheme: must be a text"),
        ({"scheme": None}, "scheme: must be a text"),
        ({"mapping": []}, "mapping: must be an object"),
    ],
)
def test_a_refusal_speaks_of_json_and_not_of_how_it_was_validated(
    body: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        source(**body)
    assert invalid_model(caught.value).detail == told


def test_a_body_has_25_mib_at_most() -> None:
    most = 25 * 1024 * 1024
    assert source(max_body_bytes=most).settings().max_body_bytes == most
    with pytest.raises(ValidationError, match="max_body_bytes"):
        source(max_body_bytes=most + 1)


def test_a_source_keeps_its_secret_out_of_its_settings() -> None:
    mapping = {"attributes": {"kind": "data.kind"}}
    wanted = source(scheme="hmac-sha256", mapping=mapping, options={"prefix": "v1="})
    assert wanted.new_secret("hmac-sha256") == b"s"
    assert "secret" not in wanted.settings().model_dump()
    assert wanted.settings().mapping == {"attributes": {"kind": "data.kind"}}
    assert "'s'" not in repr(wanted)


@pytest.mark.parametrize("scope", ["job_old.1.l8", "job_new.1.l9", "job_old.1", "job_new.1"])
@pytest.mark.parametrize("note", ["mended", "other"])
@pytest.mark.parametrize("fresh_scope", [False, True])
def test_a_replays_key_stands_for_one_body(scope: str, note: str, fresh_scope: bool) -> None:
    made = make_job("job_new", scope=scope, replay_of="job_old", replay_note="mended")
    wanted = ReplayRequest(incident_note=note, fresh_scope=fresh_scope)
    if note == "mended" and fresh_scope == scope.startswith("job_new."):
        require_same(made, wanted)
        return
    with pytest.raises(Refusal, match="fresh_scope" if note == "mended" else "note") as refused:
        require_same(made, wanted)
    assert refused.value.status == 409


@pytest.mark.parametrize("reference", ["env:HOOK", "file:/run/secrets/hook", "file:/not/here"])
def test_a_reference_is_taken_by_its_form_and_not_followed(reference: str) -> None:
    assert source(secret=None, secret_ref=reference).new_secret("hmac-sha256") == Reference(
        reference
    )


@pytest.mark.parametrize(
    "reference",
    [
        "file:relative",
        "vault:x",
        "env:",
        "env:A B",
        "env:1A",
        "file:",
        "file:/a\0b",
        "HOOK",
        "file:/" + "x" * 1024,
    ],
)
def test_a_reference_of_another_form_is_refused(reference: str) -> None:
    with pytest.raises(ValidationError, match="must be env:NAME or file:/absolute/path"):
        source(secret=None, secret_ref=reference)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"overlap_seconds": -1}, "overlap_seconds"),
        ({"overlap_seconds": 30 * 86_400 + 1}, "overlap_seconds"),
        ({"overlap_seconds": float("nan")}, "overlap_seconds"),
        ({"overlap_seconds": float("inf")}, "overlap_seconds"),
        ({"overlap_seconds": True}, "overlap_seconds"),
        ({"overlap_seconds": "60"}, "overlap_seconds"),
        ({"overlap_seconds": None}, "overlap_seconds"),
        ({"overlap_seconds": 60, "secret_ref": "env:X"}, "exactly one"),
        ({"overlap_seconds": 60, "secret": None}, "exactly one"),
        ({"overlap_seconds": 60, "scheme": "github"}, "scheme"),
    ],
)
def test_a_wrong_rotation_is_refused_by_name(body: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        RotateRequest.model_validate({"secret": "new"} | body)


def test_a_rotation_that_names_no_overlap_has_a_day() -> None:
    assert RotateRequest.model_validate({"secret": "new"}).overlap_seconds == 86_400


@pytest.mark.parametrize("seconds", [0, 0.5, 30 * 86_400])
def test_an_overlap_of_up_to_thirty_days_is_taken(seconds: float) -> None:
    wanted = RotateRequest.model_validate({"secret": "new", "overlap_seconds": seconds})
    assert (wanted.overlap_seconds, wanted.new_secret("hmac-sha256")) == (seconds, b"new")


@pytest.mark.parametrize(
    "rate",
    [
        {"count": 0, "seconds": 1},
        {"count": 1_000_001, "seconds": 1},
        {"count": 1},
        {"seconds": 1},
        {"count": 1, "seconds": 0},
        {"count": 1, "seconds": 86_401},
        {"count": 1.5, "seconds": 1},
        {"count": "1", "seconds": 1},
        {"count": True, "seconds": 1},
        {"count": 1, "seconds": float("nan")},
        {"count": 1, "seconds": 1, "burst": 2},
        5,
    ],
)
def test_a_wrong_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ValidationError, match="rate"):
        TenantSettings.model_validate({"rate": rate})


def test_a_tenant_has_a_rate_only_if_it_is_given_one() -> None:
    assert TenantSettings().rate is None
    assert TenantSettings.model_validate({"rate": {"count": 600, "seconds": 60}}).rate == Rate(
        count=600, seconds=60
    )
