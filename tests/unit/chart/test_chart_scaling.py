"""How KEDA scales what the Helm chart renders, and what leaves the number of pods alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support import chart, helm_tools
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


def _scaled(*values: Path) -> dict[str, Resource]:
    """What each ScaledObject says, by the component that it scales."""
    found = chart.of_kind(chart.resources(chart.output(*values)), "ScaledObject")
    return {name.removeprefix("tide-tidegate-"): each["spec"] for name, each in found.items()}
