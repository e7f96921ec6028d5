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
        (name, trigger["metadata"].get("ignoreNullValues"))
        for name, spec in _scaled(CASE).items()
        for trigger in spec["triggers"]
        if trigger["type"] == "prometheus"
    }
    by_prometheus = ("dedup", "delivery", "worker-answers", "worker-slow")
    assert ignored == {(name, "false") for name in by_prometheus}


def test_workers_of_one_pool_scale_by_equal_parts_of_its_jobs(tmp_path: Path) -> None:
    """Otherwise each brings pods for all jobs. A worker with `replicas` alone has no part."""
    scaled = {"app": "support.app:app", "autoscaling": {"enabled": True, "maxReplicas": 4}}
    fixed = {"app": "support.app:app", "replicas": 2}
    workers = {"answers": scaled, "spot": scaled | {"slots": 3}, "fixed": fixed}
    (tmp_path / "over.yaml").write_text(yaml.safe_dump({"workers": workers}))
    thresholds = {
        name: {trigger["metadata"]["threshold"] for trigger in spec["triggers"]}
        for name, spec in _scaled(CASE, tmp_path / "over.yaml").items()
        if name.startswith("worker-")
    }
    assert thresholds == {"worker-answers": {"40"}, "worker-spot": {"6"}, "worker-slow": {"10"}}


@pytest.mark.parametrize(("partitions", "counted"), [(8, True), (7, False)])
def test_no_worker_is_taken_away_while_a_partition_does_not_tell_of_its_jobs(
    partitions: int, counted: bool, tmp_path: Path
) -> None:
    """It is restored, or not scraped. KEDA takes none away while one trigger has no answer."""
    helm_tools.require(promql_tool.program)
    queries = [each["metadata"]["query"] for each in _scaled(CASE)["worker-slow"]["triggers"]]
    rules = [
        {"alert": name, "expr": query, "annotations": {"summary": "{{ $value }}"}}
        for name, query in zip(("Some", "All"), queries, strict=True)
    ]
    groups = {"groups": [{"name": "keda", "rules": rules}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(groups))
    fires = {"exp_labels": {}, "exp_annotations": {"summary": f"{3 * (partitions + 1)}"}}
    expected = [
        {"eval_time": "3m", "alertname": "Some", "exp_alerts": [fires]},
        {"eval_time": "3m", "alertname": "All", "exp_alerts": [fires] if counted else []},
    ]
    places = [*range(partitions), 0]  # the first one moves from one pod to another
    series = [_jobs("slow", place, pod) for pod, place in enumerate(places)]
    series.append(_jobs("default", 7, 9))
    test = {"interval": "1m", "input_series": series, "alert_rule_test": expected}
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(whole))
    assert promql_tool.failures(tmp_path / "test.yaml") == ""


def _jobs(pool: str, partition: int, pod: int) -> dict[str, str]:
    labels = f'namespace="hooks", pool="{pool}", partition="{partition}", pod="p-{pod}"'
    return {"series": f"tidegate_dispatcher_pool_jobs{{{labels}}}", "values": "3x5"}


def _scaled(*values: Path) -> dict[str, Resource]:
    """What each ScaledObject says, by the component that it scales."""
    found = chart.of_kind(chart.resources(chart.output(*values)), "ScaledObject")
    return {name.removeprefix("tide-tidegate-"): each["spec"] for name, each in found.items()}
