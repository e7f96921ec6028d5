"""What is valid and does nothing gets a warning at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.topology.load import checked

ROUTE = "routes: [{match: {source: '*', event_type: 'ticket.*'}, job: answer_ticket}]\n"


def warnings(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return [each.removeprefix(f"{file}:") for each in checked(file).warnings]


@pytest.mark.parametrize(
    "limit",
    [
        "{name: a, scope: tenant, match: '*', concurrency: 1}",
        "{name: a, scope: tenant, match: acme, concurrency: 1}",
        "{name: a, scope: job_type, match: answer_ticket, concurrency: 1}",
        "{name: a, scope: job_type, match: 'answer_*', concurrency: 1}",
        "{name: a, scope: job_type, match: 'lookup', concurrency: 1}",
        "{name: a, scope: job_type, concurrency: 1}",
        "{name: a, scope: global, concurrency: 1}",
    ],
)
def test_a_limit_with_an_effect_is_not_doubted(tmp_path: Path, limit: str) -> None:
    declared = f"job_types: [{{name: lookup}}]\nlimits: [{limit}]\n"
    assert warnings(tmp_path, ROUTE + declared) == []


@pytest.mark.parametrize("name", ["answer_ticket", "lookup"])
def test_a_tenant_limit_that_names_a_job_type_is_doubted(tmp_path: Path, name: str) -> None:
    text = f"{ROUTE}job_types: [{{name: lookup}}]\nlimits:\n"
    text += f"  - {{name: cap, scope: tenant, match: {name}, concurrency: 1}}\n"
    (told,) = warnings(tmp_path, text)
    assert told.startswith("4: limits[cap].match: scope tenant caps the tenant named")
    assert told.endswith("set scope: job_type if you mean the type")


def test_a_cancel_of_a_type_that_no_route_makes_is_doubted(tmp_path: Path) -> None:
    text = (
        "routes:\n"
        "  - {match: {source: a}, cancels: {job: answer_tickt, by: subject}}\n"
        "  - {match: {source: b}, job: answer_ticket}\n"
        "  - {match: {source: c}, cancels: {job: answer_ticket, by: attributes.order}}\n"
    )
    (told,) = warnings(tmp_path, text)
    assert told.startswith("2: routes[0].cancels.job: no route makes jobs of type 'answer_tickt'")
    assert "did you mean 'answer_ticket'?" in told


@pytest.mark.parametrize("match", ["answer_tickets", "reply_*"])
def test_a_type_limit_that_matches_no_declared_type_is_doubted(tmp_path: Path, match: str) -> None:
    text = f"{ROUTE}limits: [{{name: cap, scope: job_type, match: {match}, concurrency: 1}}]\n"
    (told,) = warnings(tmp_path, text)
    assert told.startswith(f"2: limits[cap].match: {match!r} matches no type")
    assert ("did you mean 'answer_ticket'?" in told) == (match == "answer_tickets")


def test_a_match_of_a_global_limit_is_doubted(tmp_path: Path) -> None:
    text = "limits: [{name: cap, scope: global, match: acme, concurrency: 1}]\n"
    (told,) = warnings(tmp_path, text)
    assert "has no effect" in told


@pytest.mark.parametrize(
    ("first", "second", "doubted"),
    [
        (("*", "*"), ("zendesk", "ticket.*"), True),
        (("*", "ticket.*"), ("zendesk", "ticket.created"), True),
        (("*", "ticket.*"), ("*", "ticket.re*"), True),
        (("shop", "order.?"), ("shop", "order.?"), True),
        (("zendesk", "*"), ("*", "*"), False),
        (("*", "ticket.?"), ("*", "ticket.*"), False),
        (("*", "ticket.created"), ("*", "ticket.*"), False),
        (("*", "[ab]*"), ("*", "[a]*"), False),
    ],
)
def test_a_route_behind_one_that_takes_all_of_its_events_is_doubted(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str], doubted: bool
) -> None:
    lines = [
        f"  - {{match: {{source: '{source}', event_type: '{type_}'}}, job: j}}\n"
        for source, type_ in (first, second)
    ]
    told = warnings(tmp_path, "routes:\n" + "".join(lines))
    assert [each.partition(":")[0] for each in told] == (["3"] if doubted else [])


def test_the_built_in_topology_is_not_doubted() -> None:
    assert checked().warnings == ()


@pytest.mark.parametrize(
    ("cap", "says"),
    [
        ("scope: tenant, match: answer_ticket", "scope tenant caps the tenant named"),
        ("scope: job_type, match: answer_tickets", "matches no type of job_types or routes"),
        ("scope: global, match: acme", "scope global counts all jobs"),
    ],
)
def test_a_cap_on_waiting_jobs_that_selects_nothing_is_doubted(
    tmp_path: Path, cap: str, says: str
) -> None:
    (told,) = warnings(tmp_path, f"{ROUTE}max_queued: [{{{cap}, jobs: 9}}]\n")
    assert told.startswith("2: max_queued[0].match: ")
    assert says in told
    assert warnings(tmp_path, f"{ROUTE}max_queued: [{{scope: tenant, jobs: 9}}]\n") == []


def policies(*lines: str) -> str:
    return "policies:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


@pytest.mark.parametrize(
    "earlier",
    [
        "tool: '*'",
        "tool: 'stripe:*'",
        "tool: 'stripe:refund', tenant: '*'",
        "tool: 'stripe:refund'",
    ],
)
def test_a_policy_that_decides_nothing_is_doubted(tmp_path: Path, earlier: str) -> None:
    late = "name: late, decision: deny, tool: 'stripe:refund'"
    text = policies(f"name: first, decision: allow, {earlier}", late)
    (told,) = warnings(tmp_path, text)
    assert told.startswith("3: policies[late]: policy first decides about all its effects first")


@pytest.mark.parametrize("earlier", ["tool: 'mail:*'", "tool: '*', principal: operator"])
def test_a_policy_that_decides_something_is_not_doubted(tmp_path: Path, earlier: str) -> None:
    late = "name: late, decision: deny, tool: 'stripe:refund'"
    assert warnings(tmp_path, policies(f"name: first, decision: allow, {earlier}", late)) == []
