"""How KEDA scales what the Helm chart renders, and what leaves the number of pods alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support import chart, helm_tools, promql_tool
from support.chart import Resource

CASE = chart.TESTS / "cases" / "autoscaling.yaml"
STAGES = {"dedup", "dispatcher", "delivery"}


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    helm_tools.require()


@pytest.mark.parametrize(("given", "seconds"), [({}, 600), ({"stageScaleUpSeconds": 1800}, 1800)])
def test_a_stage_gets_a_pod_only_for_a_backlog_that_outlasts_a_restore(
    given: dict[str, int], seconds: int, tmp_path: Path
) -> None:
    """Kubernetes takes the lowest need of the window. Workers and ingress restore nothing."""
    (tmp_path / "over.yaml").write_text(yaml.safe_dump({"autoscaling": given}))
    windows = {
        name: spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"][
            "stabilizationWindowSeconds"
        ]
        for name, spec in _scaled(CASE, tmp_path / "over.yaml").items()
    }
    assert windows == dict.fromkeys(STAGES, seconds) | {
        "ingress": 0,
        "worker-answers": 0,
        "worker-slow": 0,
    }


def test_lost_scrapes_leave_the_number_of_pods_as_it_is() -> None:
    """KEDA takes an empty result as 0 unless told otherwise (kedacore/keda#3065)."""
    ignored = {
        name: trigger["metadata"].get("ignoreNullValues")
        for name, spec in _scaled(CASE).items()
        for trigger in spec["triggers"]
        if trigger["type"] == "prometheus"
    }
    by_prometheus = {"dedup", "delivery", "worker-answers", "worker-slow"}
    assert ignored == dict.fromkeys(by_prometheus, "false")


@pytest.mark.parametrize(("partitions", "counted"), [(8, True), (7, False)])
def test_workers_stay_while_a_partition_does_not_tell_of_its_jobs(
    partitions: int, counted: bool, tmp_path: Path
) -> None:
    """It is restored, or not scraped; half of the jobs would do with half of the workers."""
    helm_tools.require(promql_tool.program)
    (trigger,) = _scaled(CASE)["worker-slow"]["triggers"]
    rule = {"alert": "Jobs", "expr": trigger["metadata"]["query"], "for": "0m"}
    rule["annotations"] = {"summary": "{{ $value }}"}
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "keda", "rules": [rule]}]})
    )
    told = [
        {
            "series": "tidegate_dispatcher_pool_jobs"
            f'{{namespace="hooks", pool="slow", partition="{number}", pod="p-{number % 2}"}}',
            "values": "3x5",
        }
        for number in range(partitions)
    ]
    other = {
        "series": 'tidegate_dispatcher_pool_jobs{namespace="hooks", pool="default", partition="7"}',
        "values": "1x5",
    }
    fires = [{"exp_labels": {}, "exp_annotations": {"summary": "24"}}] if counted else []
    expected = {"eval_time": "3m", "alertname": "Jobs", "exp_alerts": fires}
    test = {"interval": "1m", "input_series": [*told, other], "alert_rule_test": [expected]}
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(whole))
    assert promql_tool.failures(tmp_path / "test.yaml") == ""


def _scaled(*values: Path) -> dict[str, Resource]:
    """What each ScaledObject says, by the component that it scales."""
    found = chart.of_kind(chart.resources(chart.output(*values)), "ScaledObject")
    return {name.removeprefix("tide-tidegate-"): each["spec"] for name, each in found.items()}
