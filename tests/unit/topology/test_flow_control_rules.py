"""Flow control and priorities by a value in a topology file: what is read, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.dispatching import envelope

from streams.errors import ConfigError
from streams.topology.by_value import value_of_input
from streams.topology.flow_control import Batch, Debounce, Singleton
from streams.topology.load import load

Overlay = Callable[[str], Path]
ROUTE = "routes:\n- match: {source: a}\n  job: b\n"
TYPE = "job_types:\n- name: b\n"


@pytest.fixture
def overlay(tmp_path: Path) -> Overlay:
    def write(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def test_a_route_and_a_type_declare_the_same(overlay: Overlay) -> None:
    declared = (
        "  debounce: {by: subject, seconds: 5, max_seconds: 60}\n  expires_after_seconds: 3600\n"
    )
    route = load(overlay(ROUTE + declared)).routes[0]
    of_type = load(overlay(TYPE + declared)).job_types["b"]
    for found in (route, of_type):
        assert found.rule == Debounce(5, 60, "subject")
        assert found.expires_after_seconds == 3600


def test_each_rule_is_read(overlay: Overlay) -> None:
    text = (
        "job_types:\n"
        "- {name: a, singleton: {by: subject, keep: queue_one}}\n"
        "- {name: b, batch: {by: attributes.order, size: 100, seconds: 5}}\n"
        "- {name: c, debounce: {seconds: 0.5}}\n"
        "- {name: d, singleton: {by: 'input.customer.id', keep: first}}\n"
        "- {name: e}\n"
    )
    types = load(overlay(text)).job_types
    assert [types[name].rule for name in "abcde"] == [
        Singleton("queue_one", "subject"),
        Batch(100, 5, "attributes.order"),
        Debounce(0.5),
        Singleton("first", "input.customer.id"),
        None,
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            ROUTE + "  debounce: {by: subjct, seconds: 5}\n",
            "4: routes[0].debounce.by: 'subjct' is nothing that events or jobs are compared by "
            "(did you mean 'subject'?); write subject, attributes.NAME, or input.EXPRESSION",
        ),
        (
            TYPE + "  debounce: {by: 'input.a[', seconds: 5}\n",
            "3: job_types[b].debounce.by: the expression after input. 'a[' is no JMESPath",
        ),
        (
            ROUTE + "  debounce: {by: input.a, seconds: 5}\n",
            "2: routes[0]: 'input.a' is a value of submitted jobs",
        ),
        (
            ROUTE + "  debounce: {by: subject, seconds: 5, max_seconds: 4}\n",
            "4: routes[0].debounce.max_seconds: max_seconds 4 is below seconds 5",
        ),
        (
            ROUTE + "  debounce: {by: subject}\n",
            "4: routes[0].debounce.seconds: is missing; add it",
        ),
        (
            ROUTE + "  debounce: {seconds: 0}\n",
            "4: routes[0].debounce.seconds: the number 0 stands here; write a number above 0",
        ),
        (
            ROUTE + "  debounce: {seconds: 9999999}\n",
            "4: routes[0].debounce.seconds: the number 9999999 stands here; write a number of at "
            "most 604,800",
        ),
        (
            ROUTE + "  singleton: {by: subject, keep: last}\n",
            "4: routes[0].singleton.keep: the text 'last' stands here; write one of 'newest', "
            "'first' or 'queue_one'",
        ),
        (
            ROUTE + "  batch: {size: 501, seconds: 5}\n",
            "4: routes[0].batch.size: the number 501 stands here; write a number of at most 500",
        ),
        (
            ROUTE + "  batch: {size: 5, seconds: 5}\n  singleton: {keep: first}\n",
            "4: routes[0].batch: singleton and batch stand beside each other",
        ),
        (
            ROUTE + "  batch: {siz: 5, seconds: 5}\n",
            "4: routes[0].batch.siz: unknown key (did you mean 'size'?); known here: size, seconds",
        ),
        (
            ROUTE + "  expires_after_seconds: soon\n",
            "4: routes[0].expires_after_seconds: the text 'soon' stands here; write a number",
        ),
        (
            "routes:\n- match: {}\n  cancels: {job: a, by: subject}\n  expires_after_seconds: 5\n",
            "4: routes[0].expires_after_seconds: the route makes no job, so expires_after_seconds "
            "has no effect",
        ),
        (
            "routes:\n- match: {}\n  cancels: {job: a, by: subject}\n  draft: true\n",
            "4: routes[0].draft: the route makes no job, so draft has no effect; add job",
        ),
        (
            ROUTE + "  priority: {by: attributes.plan, enterprise: interactive}\n",
            "4: routes[0].priority: else is missing, the priority of all other events; add it",
        ),
        (
            ROUTE + "  priority: {enterprise: interactive, else: webhook}\n",
            "4: routes[0].priority: by is missing; add it",
        ),
        (
            ROUTE + "  priority: {by: plan, enterprise: interactive, else: webhook}\n",
            "4: routes[0].priority.by: 'plan' is nothing that events are compared by",
        ),
        (
            ROUTE + "  priority: {by: subject, a: interactiv, else: webhook}\n",
            "4: routes[0].priority.a: priority 'interactiv' is not declared (did you mean "
            "'interactive'?)",
        ),
        (
            ROUTE + "  priority: {by: subject, a: interactive, else: webhok}\n",
            "4: routes[0].priority.else: priority 'webhok' is not declared",
        ),
        (
            ROUTE + "  priority: 3\n",
            "4: routes[0].priority: the number 3 stands here; write",
        ),
        (
            ROUTE + "  priority: {by: subject, a: 3, else: webhook}\n",
            "4: routes[0].priority.a: the number 3 stands here; write text",
        ),
    ],
)
def test_each_mistake_names_line_key_and_remedy(overlay: Overlay, text: str, problem: str) -> None:
    path = overlay(text)
    with pytest.raises(ConfigError) as refused:
        load(path)
    found = [line.removeprefix(f"{path}:") for line in str(refused.value).splitlines()]
    assert [line for line in found if line.startswith(problem)], found


def test_a_priority_is_found_by_a_value_and_else_is_the_rest(overlay: Overlay) -> None:
    text = (
        ROUTE
        + "  priority: {by: attributes.plan, enterprise: interactive, free: batch, else: webhook}\n"
    )
    route = load(overlay(text)).routes[0]
    made = envelope("acme", "k", "t")
    for plan, level in (("enterprise", "interactive"), ("free", "batch"), ("pro", "webhook")):
        made.attributes["plan"] = plan
        assert route.priority_of(made) == level
    made.attributes.clear()
    assert (route.priority_of(made), route.priority) == ("webhook", "webhook")


def test_a_priority_without_by_is_that_of_every_event(overlay: Overlay) -> None:
    route = load(overlay(ROUTE + "  priority: batch\n")).routes[0]
    assert route.priority_of(envelope("acme", "k", "t")) == "batch"
    assert route.priority_by is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": {"b": "x"}}', '"x"'),
        ('{"a": {"b": 7}}', "7"),
        ('{"a": {"b": true}}', "true"),
        ('{"a": {"b": 0}}', "0"),
        ('{"a": {"b": ""}}', None),
        ('{"a": {"b": [1]}}', None),
        ('{"a": 1}', None),
        ("null", None),
        ("not json", None),
        ('{"a": {"b": "\\ud800"}, "c": 1234567890123456789012}', None),
    ],
)
def test_a_submission_is_compared_by_a_plain_value_of_its_input(
    text: str, value: str | None
) -> None:
    assert value_of_input("input.a.b", text) == value
