"""`tidegate tokens` sends what is asked, and prints a token alone on its last line."""

from __future__ import annotations

from typing import Any

from support.operator_api import OperatorApi, invoke, problem

from streams.api.tokens.cli import tokens

TOKEN: dict[str, Any] = {
    "id": "5o0c2l8n1d3r7k9v",
    "name": "ci",
    "role": "operator",
    "permissions": ["read", "operate"],
    "tenants": ["acme", "beta"],
    "pools": None,
    "job_types": None,
    "status": "active",
    "made_at": "2026-01-01T00:00:00.000Z",
    "made_by": "operator",
    "expires_at": "2026-04-01T00:00:00.000Z",
    "last_used_at": None,
    "revoked_at": None,
    "revoked_by": None,
}


def test_a_token_is_made_as_asked_and_printed_alone(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/tokens", TOKEN | {"token": "tg_a_b_c"}, status=201)
    several = ("--role", "operator", "--tenant", "acme", "--tenant", "beta", "--days", "30")
    made = invoke(operator, tokens, "create", "ci", *several)
    assert made.stdout.splitlines()[-1] == "tg_a_b_c"
    assert "acme, beta" in made.stdout
    assert "not shown again" in made.stderr
    invoke(operator, tokens, "create", "ci", "--permission", "read", "--permission", "admin")
    assert operator.bodies("POST") == [
        {"name": "ci", "role": "operator", "tenants": ["acme", "beta"], "expires_days": 30},
        {"name": "ci", "permissions": ["read", "admin"]},
    ]


def test_a_token_of_a_worker_is_made_with_its_limits(operator: OperatorApi) -> None:
    limits = {"role": "worker", "pools": ["agents", "gpu-*"], "job_types": ["refund"]}
    operator.on("POST", "/v1/tokens", TOKEN | limits | {"token": "tg_a_b_c"}, status=201)
    several = ("--pool", "agents", "--pool", "gpu-*", "--job-type", "refund")
    made = invoke(operator, tokens, "create", "ci", "--role", "worker", *several)
    assert operator.bodies("POST") == [{"name": "ci", **limits}]
    assert "agents, gpu-*" in made.stdout


def test_tokens_are_listed_without_any_secret(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tokens", {"tokens": [TOKEN], "next_cursor": "abc"})
    shown = invoke(operator, tokens, "list").stdout
    assert all(word in shown for word in ("5o0c2l8n1d3r7k9v", "active", "acme, beta", "abc"))


def test_a_token_is_revoked_by_its_id(operator: OperatorApi) -> None:
    ended = TOKEN | {"status": "revoked", "revoked_by": "operator"}
    operator.on("DELETE", f"/v1/tokens/{TOKEN['id']}", ended)
    shown = invoke(operator, tokens, "revoke", TOKEN["id"])
    assert shown.stdout == "token 5o0c2l8n1d3r7k9v (ci) is revoked\n"
    operator.on("DELETE", "/v1/tokens/none", problem(404, "token-unknown", "no token 'none'"))
    assert invoke(operator, tokens, "revoke", "none").exit_code == 1
