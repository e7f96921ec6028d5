"""What the values give to all pods of the Helm chart, the Jobs' too."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

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


def made(tmp_path: Path, **values: Any) -> Path:
    over = tmp_path / "over.yaml"
    over.write_text(yaml.safe_dump(values))
    return over


def objects(tmp_path: Path, **values: Any) -> list[Resource]:
    return chart.resources(chart.output(made(tmp_path, **values)))


def env_of(found: list[Resource], name: str) -> dict[str, Resource]:
    container = chart.pods(found)[f"tide-tidegate-{name}"]["spec"]["containers"][0]
    return {each["name"]: each for each in container["env"]}


def keys_of(found: list[Resource], name: str) -> list[dict[str, str]]:
    """The files of the keys, by entry and path, as the pod mounts them."""
    volumes = chart.pods(found)[f"tide-tidegate-{name}"]["spec"]["volumes"]
    kept = next(each for each in volumes if each["name"] == "keys")
    return [item for source in kept["projected"]["sources"] for item in source["secret"]["items"]]


def test_a_variable_of_a_component_goes_before_the_common_one(tmp_path: Path) -> None:
    """Helm 4 refuses a name that stands twice; Helm 3 takes both away later (helm#12643)."""
    found = objects(
        tmp_path,
        pod={"extraEnv": [{"name": "PROXY", "value": "common"}, {"name": "ZONE", "value": "a"}]},
        ingress={"pod": {"extraEnv": [{"name": "PROXY", "value": "own"}]}},
        settings={"kafka_socket_keepalive_enable": True},
        kafka={"settings": {"socket.keepalive.enable": False}},
    )
    for pod in chart.pods(found).values():
        names = Counter(each["name"] for each in pod["spec"]["containers"][0]["env"])
        assert not [name for name, times in names.items() if times > 1]
    assert env_of(found, "ingress")["PROXY"]["value"] == "own"
    assert env_of(found, "ingress")["ZONE"]["value"] == "a"
    assert env_of(found, "operator")["PROXY"]["value"] == "common"


def test_names_that_look_like_numbers_stay_names(tmp_path: Path) -> None:
    keys = {
        "vault": {"secretName": "20", "entries": ["20261101", "20251001"]},
        "adminToken": {"secretName": "30", "entry": "1"},
    }
    found = objects(
        tmp_path,
        keys=keys,
        pipeline={"persistence": {"storageClassName": "1"}},
        topology={"delete": ["2024"]},
        hooks={
            "hosts": ["h.example"],
            "ingress": {"enabled": True, "className": "1", "tlsSecretName": "2026"},
        },
    )
    (route,) = chart.of_kind(found, "Ingress").values()
    assert (route["spec"]["ingressClassName"], route["spec"]["tls"][0]["secretName"]) == (
        "1",
        "2026",
    )
    job = chart.pods(found)["tide-tidegate-topology-apply"]["spec"]["containers"][0]
    assert job["args"][-1] == "2024"
    assert keys_of(found, "operator") == [
        {"key": "20261101", "path": "vault/20261101"},
        {"key": "20251001", "path": "vault/20251001"},
    ]
    token = env_of(found, "operator")["TIDEGATE_ADMIN_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert token == {"name": "30", "key": "1"}
    claims = chart.of_kind(found, "StatefulSet")["tide-tidegate-pipeline"]["spec"]
    assert claims["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "1"


def test_each_operator_keeps_its_read_model_on_a_volume_if_asked_for(tmp_path: Path) -> None:
    """It reads every partition, so there may be more of them than partitions."""
    name, disk = "tide-tidegate-operator", {"enabled": True, "size": "1100Gi"}
    found = objects(tmp_path, operator={"replicas": 9, "persistence": disk})
    spec = chart.of_kind(found, "StatefulSet")[name]["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert (spec["replicas"], claim["spec"]["resources"]["requests"]) == (9, {"storage": "1100Gi"})
    volumes = [each["name"] for each in chart.pods(found)[name]["spec"]["volumes"]]
    assert claim["metadata"]["name"] not in volumes
    assert "pod-index" in str(env_of(found, "operator")["TIDEGATE_INSTANCE"])
    assert name not in chart.of_kind(found, "Deployment")


def test_the_digest_of_the_charts_image_is_of_no_other_image(tmp_path: Path) -> None:
    common = {"repository": "r/tidegate", "digest": "sha256:" + "0" * 64}
    workers = {
        name: {"app": "a:b", "image": image}
        for name, image in {
            "same": {"pullPolicy": "Always"},
            "tagged": {"tag": "2"},
            "other": {"repository": "r/support", "tag": "1"},
            "pinned": {"repository": "r/support", "digest": "sha256:" + "1" * 64},
        }.items()
    }
    pods = chart.pods(objects(tmp_path, image=common, workers=workers))
    images = {
        name: pods[f"tide-tidegate-worker-{name}"]["spec"]["containers"][0]["image"]
        for name in workers
    }
    assert images == {
        "same": f"r/tidegate@{common['digest']}",
        "tagged": "r/tidegate:2",
        "other": "r/support:1",
        "pinned": f"r/support@sha256:{'1' * 64}",
    }


def test_what_goes_together_is_not_mixed_between_all_workers_and_one(tmp_path: Path) -> None:
    """An image by digest, and a volume, which may have one type alone."""
    digest = f"sha256:{'1' * 64}"
    found = objects(
        tmp_path,
        image={"repository": "r/tidegate", "digest": f"sha256:{'0' * 64}"},
        worker={
            "image": {"repository": "r/support", "digest": digest},
            "token": {"secretName": "common"},
            "wheel": {"volume": {"configMap": {"name": "w"}}, "files": ["a.whl"]},
        },
        workers={
            "same": {"app": "a:b", "image": {"repository": "r/support"}},
            "own": {
                "app": "a:b",
                "image": {"tag": "2"},
                "token": {"secretName": "bob", "entry": "t"},
                "wheel": {"volume": {"persistentVolumeClaim": {"claimName": "c"}}},
            },
        },
    )
    specs = {
        name: chart.pods(found)[f"tide-tidegate-worker-{name}"]["spec"] for name in ("same", "own")
    }
    images = {name: spec["containers"][0]["image"] for name, spec in specs.items()}
    assert images == {"same": f"r/support@{digest}", "own": "r/support:2"}
    tokens = [env_of(found, f"worker-{n}")["TIDEGATE_LINK_TOKEN"]["valueFrom"] for n in specs]
    assert [each["secretKeyRef"] for each in tokens] == [
        {"name": "common", "key": "link-token"},
        {"name": "bob", "key": "t"},
    ]
    wheels = next(each for each in specs["own"]["volumes"] if each["name"] == "wheels")
    assert wheels.keys() == {"name", "persistentVolumeClaim"}


def test_values_that_are_taken_away_are_none(tmp_path: Path) -> None:
    objects(tmp_path, worker={"image": None, "token": None, "wheel": None})
    assert "-layout-" in "".join(chart.pods(objects(tmp_path, layout="apart", pipeline=None)))


def test_the_jobs_have_the_settings_of_every_process_and_the_stages_session(tmp_path: Path) -> None:
    given = {"kafka_ssl_endpoint_identification_algorithm": "none", "session_seconds": 12}
    found = objects(tmp_path, settings=given)
    jobs = [name for name in chart.pods(found) if "-topology-apply" in name or "-layout-" in name]
    assert len(jobs) == 2
    for name in jobs:
        env = env_of(found, name.removeprefix("tide-tidegate-"))
        assert env["TIDEGATE_KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM"]["value"] == "none"
        assert env["TIDEGATE_SESSION_SECONDS"]["value"] == "30"


@pytest.mark.parametrize("layout", ["fused", "apart"])
def test_workers_dial_the_owners_of_jobs_and_know_nothing_of_kafka(
    layout: str, tmp_path: Path
) -> None:
    owner = "pipeline" if layout == "fused" else "dispatcher"
    kafka = {"securityProtocol": "SASL_SSL", "sasl": {"secretName": "all"}}
    found = objects(tmp_path, layout=layout, kafka=kafka)
    env = env_of(found, "worker-answers")
    assert env["TIDEGATE_LINK"]["value"] == f"ws://tide-tidegate-{owner}:7470"
    assert not [name for name in env if "KAFKA" in name or "VAULT" in name or "BOOTSTRAP" in name]
    mounted = chart.pods(found)["tide-tidegate-worker-answers"]["spec"]["volumes"]
    assert {each["name"] for each in mounted} == {"state", "tmp", "topology"}
    assert env_of(found, owner)["TIDEGATE_LINK_LISTEN"]["value"] == "0.0.0.0:7470"
    service = next(
        each
        for each in found
        if each["kind"] == "Service" and each["metadata"]["name"] == f"tide-tidegate-{owner}"
    )
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert 7470 in [port["port"] for port in service["spec"]["ports"]]


def test_a_pool_may_have_any_number_of_workers(tmp_path: Path) -> None:
    workers = {"many": {"app": "a:b", "replicas": 500}}
    assert chart.pods(objects(tmp_path, workers=workers))


def release(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    given = [helm_tools.helm(), "template", name, chart.CHART, "--values", chart.BASE, *options]
    words = [str(word) for word in given]
    return subprocess.run(words, text=True, capture_output=True, check=False)


def test_a_release_and_a_namespace_may_be_numbers() -> None:
    done = release("1234", "--namespace", "5678", "--set", "fullnameOverride=tide")
    metadata = [each["metadata"] for each in chart.resources(done.stdout)]
    assert {each["labels"]["app.kubernetes.io/instance"] for each in metadata} == {"1234"}
    assert {each["namespace"] for each in metadata} == {"5678"}


@pytest.mark.parametrize("name", ["1234", "tidegate.prod"])
def test_a_name_that_no_service_may_have_is_refused(name: str) -> None:
    assert "is no name that a Service may have" in release(name).stderr
    assert release(name, "--set", "fullnameOverride=tide").returncode == 0
    assert "is no name" in release("tide", "--set", "fullnameOverride=my_App").stderr


def test_a_variable_stands_behind_those_that_it_refers_to(tmp_path: Path) -> None:
    """Kubernetes leaves $(NAME) as it is unless NAME stands before."""
    password = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "p"}}}
    proxy = {"name": "TIDEGATE_EGRESS_PROXY", "value": "http://tide:$(PASSWORD)@proxy:3128"}
    found = objects(
        tmp_path,
        settings={"egress_proxy": "http://proxy:3128"},
        delivery={"pod": {"extraEnv": [password, proxy]}},
    )
    names = list(env_of(found, "delivery"))
    assert names.index("PASSWORD") < names.index("TIDEGATE_EGRESS_PROXY")
    assert env_of(found, "delivery")["TIDEGATE_EGRESS_PROXY"] == proxy


def test_variables_that_refer_to_each_other_stand_in_order(tmp_path: Path) -> None:
    """Also if one component gives one of them anew, which refers to another one."""
    given = {"NODE": "10.0.0.1", "COLLECTOR": "http://$(NODE):4318"}
    own = {"NODE": "$(PREFIX)::1", "PREFIX": "fd00"}
    env = [
        [{"name": name, "value": value} for name, value in each.items()] for each in (given, own)
    ]
    found = objects(tmp_path, pod={"extraEnv": env[0]}, ingress={"pod": {"extraEnv": env[1]}})
    names = [name for name in env_of(found, "ingress") if name in {*given, *own}]
    assert names == ["PREFIX", "NODE", "COLLECTOR"]


def test_volumes_of_a_component_come_in_addition(tmp_path: Path) -> None:
    def volume(name: str) -> dict[str, Any]:
        mount = {"name": name, "mountPath": f"/{name}"}
        return {
            "extraVolumes": [{"name": name, "emptyDir": {}}],
            "extraVolumeMounts": [mount],
        }

    found = objects(tmp_path, pod=volume("common"), ingress={"pod": volume("own")})
    for component, named in ("ingress", {"common", "own"}), ("operator", {"common"}):
        spec = chart.pods(found)[f"tide-tidegate-{component}"]["spec"]
        for part in spec["volumes"], spec["containers"][0]["volumeMounts"]:
            assert {each["name"] for each in part} & {"common", "own"} == named


def test_a_label_of_a_component_goes_before_the_common_one(tmp_path: Path) -> None:
    """A key that stands twice in one map is no valid YAML."""
    own = {"labels": {"team": "b"}}
    text = chart.output(made(tmp_path, commonLabels={"team": "a"}, ingress={"pod": own}))
    labels = chart.pods(chart.resources(text))["tide-tidegate-ingress"]["metadata"]["labels"]
    assert labels["team"] == "b"
    assert not re.search(r"team: a\n +team: b", text)


def test_certificates_of_a_volume_are_named_to_the_client(tmp_path: Path) -> None:
    """The chart knows those of Secrets alone."""
    paths = {"ssl.ca.location": "/ca/bundle.pem", "ssl.certificate.location": "/own/tls.crt"}
    kafka = {"securityProtocol": "SASL_SSL", "sasl": {"secretName": "all"}, "settings": paths}
    env = env_of(objects(tmp_path, kafka=kafka), "ingress")
    assert env["TIDEGATE_KAFKA_SSL_CA_LOCATION"]["value"] == "/ca/bundle.pem"
    assert env["TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION"]["value"] == "/own/tls.crt"


@pytest.mark.parametrize(
    ("common", "own", "user"),
    [
        ({"username": "all"}, {"secretName": "mine"}, {"value": "mine"}),
        ({"username": "all"}, {"username": "me"}, {"value": "me"}),
        ({"usernameKey": "user"}, {"secretName": "mine", "username": "me"}, {"value": "me"}),
        (
            {"usernameKey": "user"},
            {"secretName": "mine"},
            {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "user"}}},
        ),
    ],
)
def test_a_secret_of_its_own_goes_with_a_user_of_its_own(
    common: Resource, own: Resource, user: Resource, tmp_path: Path
) -> None:
    sasl = {"secretName": "common", **common}
    kafka = {"securityProtocol": "SASL_SSL", "sasl": sasl}
    env = env_of(objects(tmp_path, kafka=kafka, ingress={"kafkaUser": own}), "ingress")
    assert env["TIDEGATE_KAFKA_SASL_USERNAME"] == {"name": "TIDEGATE_KAFKA_SASL_USERNAME", **user}
