"""What the Helm chart renders: golden outputs, valid kinds, and references that hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support import chart, helm_tools
from support.chart import CASES, Resource
from support.chart_golden import golden, path_of
from support.kinds import problems

pytestmark = pytest.mark.usefixtures("_tools")

cases = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def _tools() -> None:
    helm_tools.require()


@cases
def test_the_output_is_the_golden_one(case: Path) -> None:
    """`make chart` writes the golden outputs anew; read the difference before you commit it."""
    assert golden(case) == path_of(case).read_text()


@cases
def test_every_object_is_valid_in_the_oldest_and_the_newest_kubernetes(case: Path) -> None:
    found = chart.resources(chart.rendered(case))
    assert [line for each in found for line in problems(each)] == []


def test_a_kind_without_a_schema_is_no_valid_one() -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    assert problems(thing) != []


@pytest.mark.parametrize("kind", ["ScaledObject", "ServiceMonitor", "HTTPRoute", "StatefulSet"])
def test_a_field_that_the_schema_does_not_name_is_found(kind: str) -> None:
    found = [each for case in CASES for each in chart.resources(chart.rendered(case))]
    sample = next(each for each in found if each["kind"] == kind)
    assert problems(sample) == []
    assert problems({**sample, "spec": {**sample["spec"], "replicaz": 3}}) != []


@cases
def test_what_objects_refer_to_is_there(case: Path) -> None:
    found = chart.resources(chart.rendered(case))
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert {used for each in found for used in _uses(each)} - names == set()


@cases
def test_every_service_budget_and_policy_selects_the_pods_of_its_own_component(case: Path) -> None:
    found = chart.resources(chart.rendered(case))
    pods = chart.pods(found)
    for kind, field in (
        ("Service", ("spec", "selector")),
        ("PodDisruptionBudget", ("spec", "selector", "matchLabels")),
    ):
        for name, each in chart.of_kind(found, kind).items():
            selector = each
            for part in field:
                selector = selector[part]
            labelled = {pod for pod, made in pods.items() if _matches(selector, made)}
            assert labelled == {name}


@cases
def test_all_pods_have_least_rights_and_mount_what_they_name(case: Path) -> None:
    for name, pod in chart.pods(chart.resources(chart.rendered(case))).items():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["automountServiceAccountToken"] is False, name
        claimed = {"state"} if "volumes" in spec and _has_claim(spec) else set()
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"] + spec.get("initContainers", []):
            held = container["securityContext"]
            assert held["readOnlyRootFilesystem"] is True, name
            assert held["allowPrivilegeEscalation"] is False, name
            assert held["capabilities"] == {"drop": ["ALL"]}, name
            assert "cpu" not in container["resources"]["limits"], name
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted - volumes - claimed == set(), name


@cases
def test_no_secret_is_anywhere_but_in_the_secrets_that_exist_already(case: Path) -> None:
    found = chart.resources(chart.rendered(case))
    assert chart.of_kind(found, "Secret") == {}
    for pod in chart.pods(found).values():
        for variable in pod["spec"]["containers"][0]["env"]:
            if any(word in variable["name"] for word in ("TOKEN", "PASSWORD")):
                assert "secretKeyRef" in variable["valueFrom"]


@cases
def test_only_whom_the_values_name_reaches_the_api_of_operator_and_analytics(case: Path) -> None:
    """Its metrics are on the same port: who may scrape by default may not therefore ask."""
    found = chart.of_kind(chart.resources(chart.rendered(case)), "NetworkPolicy")
    for name in ("tide-tidegate-operator", "tide-tidegate-analytics"):
        rules = found[name]["spec"]["ingress"] if name in found else []
        peers = [peer for rule in rules for peer in rule["from"]]
        assert {"namespaceSelector": {}} not in peers


@cases
def test_what_the_first_job_needs_is_there_before_the_release(case: Path) -> None:
    """It would reach no Kafka where a namespace denies all that no policy allows."""
    found = chart.resources(chart.rendered(case))
    policies = ["NetworkPolicy"] if chart.of_kind(found, "NetworkPolicy") else []
    hooked = [each for each in found if "helm.sh/hook" in each["metadata"].get("annotations", {})]
    assert sorted(each["kind"] for each in hooked) in ([], ["ConfigMap", "Job", *policies])
    annotations = {each["kind"]: each["metadata"]["annotations"] for each in hooked}
    job = annotations.pop("Job", {})
    for each in annotations.values():
        assert int(each.pop("helm.sh/hook-weight")) < 0
        assert each == job
    owners = {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in hooked}
    assert owners <= {"topology"}


def test_a_large_number_is_written_out_for_librdkafka(tmp_path: Path) -> None:
    given = {"message.max.bytes": 10_485_760, "check.crcs": True, "x": "as it is"}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"kafka": {"settings": given}}))
    pods = chart.pods(chart.resources(chart.output(tmp_path / "values.yaml")))
    env = pods["tide-tidegate-pipeline"]["spec"]["containers"][0]["env"]
    values = {each["name"]: each.get("value") for each in env}
    assert values["TIDEGATE_KAFKA_MESSAGE_MAX_BYTES"] == "10485760"
    assert values["TIDEGATE_KAFKA_CHECK_CRCS"] == "true"
    assert values["TIDEGATE_KAFKA_X"] == "as it is"


@pytest.mark.parametrize("given", ["lb.example.com", ["lb.example.com"]])
def test_hosts_that_delivery_may_not_reach_are_those_of_the_console_and_the_given_ones(
    given: object, tmp_path: Path
) -> None:
    values = {
        "console": {"hosts": ["console.example.com"]},
        "settings": {"egress_own_hosts": given},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    pods = chart.pods(chart.resources(chart.output(tmp_path / "values.yaml")))
    for name in ("delivery", "operator"):
        env = pods[f"tide-tidegate-{name}"]["spec"]["containers"][0]["env"]
        found = {each["name"]: each.get("value") for each in env}["TIDEGATE_EGRESS_OWN_HOSTS"]
        assert found == "console.example.com,lb.example.com"


def test_the_longest_names_fit(tmp_path: Path) -> None:
    """A Service's name has 63 characters at most (RFC 1123)."""
    longest = {"fullnameOverride": "r" * 90, "workers": {"w" * 20: {"app": "a:b"}}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(longest))
    names = [
        each["metadata"]["name"]
        for each in chart.resources(chart.output(tmp_path / "values.yaml"))
        if each["kind"] in ("Service", "StatefulSet", "Deployment", "Job")
    ]
    assert max(map(len, names)) <= 63


def _uses(each: Resource) -> set[tuple[str, str]]:
    """Objects of the release that this one names."""
    used: set[tuple[str, str]] = set()
    spec = each.get("spec") or {}
    if each["kind"] == "StatefulSet":
        used.add(("Service", spec["serviceName"]))
    if each["kind"] == "ScaledObject":
        used.add((spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]))
        refs = [trigger.get("authenticationRef") for trigger in spec["triggers"]]
        used |= {("TriggerAuthentication", ref["name"]) for ref in refs if ref}
    if each["kind"] == "Ingress":
        for rule in spec["rules"]:
            paths = rule["http"]["paths"]
            used |= {("Service", path["backend"]["service"]["name"]) for path in paths}
    if each["kind"] == "HTTPRoute":
        backends = [ref for rule in spec["rules"] for ref in rule["backendRefs"]]
        used |= {("Service", ref["name"]) for ref in backends}
    for pod in chart.pods([each]).values():
        names = [volume.get("configMap", {}).get("name", "") for volume in pod["spec"]["volumes"]]
        used |= {("ConfigMap", name) for name in names if name.startswith("tide-")}
    return used


def _matches(selector: dict[str, str], pod: Resource) -> bool:
    labels: dict[str, str] = pod["metadata"]["labels"]
    return selector.items() <= labels.items()


def _has_claim(spec: Resource) -> bool:
    return not any(volume["name"] == "state" for volume in spec["volumes"])
