"""What a refusal is answered with."""

from __future__ import annotations

import orjson

from streams.api.refusal import Refusal, unknown
from streams.api.remedy import put
from streams.api.serving.problems import refused


def test_the_problem_has_the_call_that_helps_as_its_detail_names_it() -> None:
    create = put("tenants", "a", "sources", "of a/b")
    refusal = unknown("source", "of a/b", f"create it with {create}", create)
    body = refused(refusal).body
    assert isinstance(body, bytes)
    problem = orjson.loads(body)
    assert problem["remedy"] == {"method": "PUT", "path": "/v1/tenants/a/sources/of%20a%2Fb"}
    assert problem["detail"].endswith("create it with PUT /v1/tenants/a/sources/of%20a%2Fb")


def test_a_call_that_needs_a_certain_body_tells_it_as_json() -> None:
    enable = put("tenants", "a", "endpoints", "crm", body='{"enabled":true}')
    refusal = Refusal(409, "endpoint-disabled", f"{enable} enables it", remedy=enable)
    assert refusal.json()["remedy"]["body"] == {"enabled": True}
    assert refusal.detail == 'PUT /v1/tenants/a/endpoints/crm {"enabled":true} enables it'


def test_a_problem_without_such_a_call_has_no_remedy() -> None:
    assert "remedy" not in Refusal(409, "job-ended", "it has ended").json()
