"""The alerts: that they fire and rest when they should, and that each leads to its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from support import helm_tools, promql_tool
from support.queries import rules, selected

from ingress.receive import problems
from ingress.receive.problems import Problem
from streams.dispatcher.parts.held import Reason
from streams.serde.delivery_states import DeliveryStatus
from streams.serde.job_states import JobStatus
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
RUNBOOK = ROOT / "docs" / "runbook.md"
TESTS = sorted(Path(__file__).parent.glob("*.yaml"))
"""In the format of promtool, which carries them out as well: `promtool test rules FILE`."""
_PROBLEMS = {each.name for each in vars(problems).values() if isinstance(each, Problem)}
_ACCEPTED = {"accepted", "duplicate", "quarantined", "handshake", "disconnected"}
VALUES = {
    ("tidegate_ingress_requests_total", "outcome"): _PROBLEMS | _ACCEPTED,
    ("tidegate_dispatcher_held_jobs", "reason"): set(get_args(Reason)),
    ("tidegate_jobs", "status"): set(get_args(JobStatus)),
    ("tidegate_deliveries", "status"): set(get_args(DeliveryStatus)),
    ("tidegate_delivery_attempts_total", "error"): {"delivered"},
    ("tidegate_stage_transactions_total", "outcome"): {"committed", "aborted"},
    ("tidegate_stage_lag_seconds", "stage"): {*load().stages, "pipeline", "operator"},
    ("tidegate_stage_commit_seconds_bucket", "stage"): {*load().stages},
    ("tidegate_process_info", "stage"): {*load().stages, "ingress", "pipeline", "operator"},
    ("tidegate_process_ready", "stage"): {*load().fused, "ingress"},
    ("ALERTS", "alertname"): {rule["alert"] for rule in rules()},
    ("ALERTS", "alertstate"): {"pending", "firing"},
}
"""The values that a label can have."""


@pytest.fixture
def _tool() -> None:
    helm_tools.require(promql_tool.program)


@pytest.mark.usefixtures("_tool")
@pytest.mark.parametrize("tests", TESTS, ids=lambda path: path.stem)
def test_each_alert_fires_when_it_should_and_rests_otherwise(tests: Path) -> None:
    assert promql_tool.failures(tests) == ""


@pytest.mark.usefixtures("_tool")
def test_what_does_not_fire_as_expected_is_found(tmp_path: Path) -> None:
    copy, loud = tmp_path / "a.yaml", tmp_path / "alerts.yaml"
    text = next(path for path in TESTS if path.stem == "stages").read_text()
    copy.write_text(re.sub(r"^rule_files: .*", "rule_files: [alerts.yaml]", text))
    hasty = [{**rule, "for": "1m"} for rule in rules()]
    loud.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": hasty}]}))
    assert "TidegateStageLag at 14m\nfires but should not" in promql_tool.failures(copy)


def test_each_alert_is_tested_both_ways() -> None:
    fires, rests = set[str](), set[str]()
    for path in TESTS:
        for group in yaml.safe_load(path.read_text())["tests"]:
            for each in group["alert_rule_test"]:
                (fires if each["exp_alerts"] else rests).add(each["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert (fires, rests) == (names, names)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_says_how_bad_it_is_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_no_alert_fires_after_a_single_scrape_of_up_to_a_minute(rule: dict[str, Any]) -> None:
    minutes = {"m": 1, "h": 60}[rule["for"][-1]] * int(rule["for"][:-1])
    assert minutes >= 2


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    pages = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert pages == list(dict.fromkeys(rule["alert"] for rule in rules()))


def test_each_page_begins_with_what_users_notice_and_the_first_command() -> None:
    pages = re.split(r"^### (\w+)\n", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]
    for name, page in zip(pages[::2], pages[1::2], strict=True):
        meaning, _, rest = page.strip().partition("\n\n")
        assert len(meaning) > 60, name
        assert rest.startswith("    "), f"{name}: its first command comes after its first paragraph"
        for part in ("**You see**", "**Do**", "**Escalate**"):
            assert part in page, f"{name}: {part}"


def test_logs_of_ended_containers_are_asked_of_pods_that_have_none_too() -> None:
    """Otherwise kubectl ends at the first pod that never restarted, and pods come in no order."""
    asked = re.findall(r"^    kubectl logs .*--previous.*", RUNBOOK.read_text(), re.MULTILINE)
    assert asked
    assert all("--ignore-errors" in each for each in asked)


@pytest.mark.usefixtures("_tool")
def test_every_value_that_a_query_wants_of_a_label_exists() -> None:
    for where, found in selected().items():
        for selector in found:
            for label, op, value in selector.matchers:
                if label != "namespace":
                    known = VALUES[selector.metric, label]
                    wanted = value.split("|") if "~" in op else [re.escape(value)]
                    unknown = {v for v in wanted if not any(re.fullmatch(v, k) for k in known)}
                    assert unknown == set(), f"{where}: {selector.metric}"


@pytest.mark.usefixtures("_tool")
def test_no_query_names_a_tenant() -> None:
    for where, found in selected().items():
        assert not any("tenant" in label for each in found for label in each.labels), where
