"""What the values give to all pods of the Helm chart, the Jobs' too."""

from __future__ import annotations

import pytest
import yaml
from support import chart, helm_tools
from support.chart import Resource

CASE = chart.TESTS / "cases" / "placement.yaml"
JOBS = {"topology-apply", "layout"}


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    helm_tools.require()


def test_every_pod_has_what_all_have_in_common() -> None:
    """`layout`, the second Job, has a hash after its name."""
    common = yaml.safe_load(CASE.read_text())["pod"]
    found = chart.pods(chart.resources(chart.rendered(CASE)))
    names = {name.removeprefix("tide-tidegate-") for name in found}
    assert {job for job in JOBS for name in names if name.startswith(job)} == JOBS
    assert {name: _lacks(pod, common) for name, pod in found.items()} == dict.fromkeys(found, "")


def _lacks(pod: Resource, common: Resource) -> str:
    """The names of what a pod should have and has not."""
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    has = {
        "labels": common["labels"].items() <= pod["metadata"]["labels"].items(),
        "annotations": common["annotations"].items()
        <= pod["metadata"].get("annotations", {}).items(),
        "extraEnv": all(each in container["env"] for each in common["extraEnv"]),
        "extraVolumes": all(each in spec["volumes"] for each in common["extraVolumes"]),
        "extraVolumeMounts": all(
            each in container["volumeMounts"] for each in common["extraVolumeMounts"]
        ),
    } | {
        name: spec.get(name) == common[name]
        for name in ("nodeSelector", "tolerations", "affinity", "priorityClassName")
    }
    assert has.keys() == common.keys()
    return ", ".join(name for name, given in has.items() if not given)
