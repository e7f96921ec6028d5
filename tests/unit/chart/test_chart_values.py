"""What the Helm chart says of values that cannot work, and its README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import chart, chart_readme, helm_tools

from streams.new import project
from streams.settings import Settings


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    helm_tools.require()


def test_the_chart_has_no_lint() -> None:
    done = chart.run("lint", "--strict", "--values", chart.BASE)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("layout=fuzed", "at '/layout': value must be one of 'fused', 'apart'"),
        ("kafka.bootstrap=kafka", "at '/kafka/bootstrap'"),
        ("ingress.replica=3", "at '/ingress': additional properties 'replica' not allowed"),
        ("pipeline.replicas=x", "at '/pipeline/replicas': got string, want integer"),
        ("workers.a.app=nothing", "at '/workers/a/app'"),
        ("workers.A.app=a:b", "A"),
        ("image.digest=sha256:1", "at '/image/digest'"),
        ("settings.inFlight=1", "'inFlight' does not match"),
        ("settings.instance=a", "invalid propertyName 'instance'"),
        ("ingress.settings.admin_token=s3cret", "invalid propertyName 'admin_token'"),
        ("settings.kafka_sasl_password=s3cret", "invalid propertyName 'kafka_sasl_password'"),
        ("delivery.stopSeconds=5", "at '/delivery/stopSeconds': minimum"),
        ("autoscaling.stageScaleUpSeconds=3601", "at '/autoscaling/stageScaleUpSeconds': maximum"),
        ("kafka.bootstrap=", "kafka.bootstrap is empty"),
        ("keys.vault.secretName=", "keys.vault.secretName is empty"),
        ("keys.adminToken.secretName=", "keys.adminToken.secretName is empty"),
        ("keys.link.secretName=", "workers.answers has no token of its own"),
        ("kafka.securityProtocol=SASL_SSL", "kafka.sasl.secretName is empty"),
        ("kafka.sasl.secretName=user", "kafka.sasl.secretName is set, but"),
        ("kafka.clientCertificate.secretName=user", "shows no client certificate: use SSL"),
        ("kafka.settings.security\\.protocol=SSL", "is what kafka.securityProtocol gives"),
        ("kafka.settings.SASL_USERNAME=a", "is what kafka.sasl.username gives"),
        (
            "kafka.ca.secretName=ca,kafka.settings.ssl\\.ca\\.location=/a",
            "ssl.ca.location is what kafka.ca gives",
        ),
        (
            "delivery.settings.kafka_security_protocol=SSL",
            "delivery.settings.kafka_security_protocol is what kafka.securityProtocol gives",
        ),
        ("commonLabels.app\\.kubernetes\\.io/name=a", "it selects the pods of a component"),
        ("delivery.pod.labels.app\\.kubernetes\\.io/component=a", "io/component cannot be given"),
        ("settings.kafka_sasl_username=a", "settings.kafka_sasl_username is what kafka.sasl"),
        ("autoscaling.prometheus=http://u:p@prometheus:9090", "at '/autoscaling/prometheus'"),
        ("workers.a.app=a:b,workers.a.settings.slots=9", "workers.a.slots gives: use that"),
        ("worker.settings.slots=9", "workers.answers.slots gives: use that"),
        ("settings.slots=9", "worker.slots gives: use that"),
        ("workers.a.app=a:b,workers.a.wheel.files={a.whl}", "workers.a.wheel needs both"),
        ("workers.a.app=a:b,workers.a.wheel.volume.emptyDir.sizeLimit=1Mi", "a.wheel needs both"),
        ("settings.egress_proxy=http://u:p@proxy:1", "settings.egress_proxy holds a password"),
        ("delivery.settings.egress_proxy=http://u@proxy:1", "delivery.settings.egress_proxy holds"),
        ("kafka.settings.sasl\\.password=s3cret", "kafka.settings.sasl.password holds a secret"),
        ("kafka.settings.SASL_PASSWORD=s3cret", "use kafka.sasl.secretName"),
        ("kafka.settings.sasl\\.jaas\\.config=s3cret", "sasl.jaas.config holds a secret"),
        ("kafka.settings.ssl\\.key\\.pem=s3cret", "kafka.clientCertificate.secretName, or"),
        ("kafka.settings.ssl\\.keystore\\.password=s3cret", "ssl.keystore.password holds a secret"),
        (
            "kafka.settings.sasl\\.oauthbearer\\.config=s3cret",
            "or pod.extraEnv with the variable TIDEGATE_KAFKA_SASL_OAUTHBEARER_CONFIG",
        ),
        (
            "kafka.settings.sasl\\.oauthbearer\\.client\\.secret=s3cret",
            "sasl.oauthbearer.client.secret holds a secret",
        ),
        (
            "kafka.settings.sasl\\.oauthbearer\\.assertion\\.private\\.key\\.passphrase=s3cret",
            "passphrase holds a secret",
        ),
        ("pipeline.replicas=5", "pipeline.replicas is 5, but only 4 pods would have a partition"),
        ("workers.answers.autoscaling.enabled=true", "needs autoscaling.prometheus"),
        ("analytics.autoscaling.enabled=true", "analytics.autoscaling.enabled"),
        ("hooks.ingress.enabled=true", "hooks.hosts is empty"),
        (
            "hooks.hosts={a},hooks.ingress.enabled=true,ingress.enabled=false",
            "hooks leads to the component ingress, but ingress.enabled is false",
        ),
        ("console.hosts={a},console.gateway.enabled=true", "console.gateway.parentRefs is empty"),
        ("console.hosts={a},console.ingress.enabled=true", "networkPolicy.consoleFrom is empty"),
    ],
)
def test_a_value_that_cannot_work_is_named(given: str, says: str) -> None:
    done = chart.run("template", "--values", chart.BASE, "--set", given)
    assert done.returncode != 0
    assert says in done.stderr
    assert "nil pointer" not in done.stderr
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    "workers",
    ["null", '{answers: {app: "support.app:app", token: {secretName: own, entry: token}}}'],
)
def test_workers_without_a_token_of_their_own_alone_need_that_of_the_link(
    tmp_path: Path, workers: str
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(f"keys: {{link: {{secretName: ''}}}}\nworkers: {workers}\n")
    with_token = {
        name
        for name, pod in chart.pods(chart.resources(chart.output(values))).items()
        for variable in pod["spec"]["containers"][0].get("env", ())
        if variable["name"] == "TIDEGATE_LINK_TOKEN"
    }
    assert with_token == (set() if workers == "null" else {"tide-tidegate-worker-answers"})


def test_no_setting_is_a_variable_that_the_chart_sets_itself() -> None:
    """It would come twice; a common `instance` would make all pods of a component one instance."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    refused = set(schema["$defs"]["settings"]["propertyNames"]["not"]["anyOf"][0]["enum"])
    ours = {
        variable["name"].removeprefix("TIDEGATE_").lower()
        for pod in chart.pods(chart.resources(chart.rendered())).values()
        for variable in pod["spec"]["containers"][0]["env"]
        if variable["name"].startswith("TIDEGATE_") and "_KAFKA_" not in variable["name"]
    }
    assert ours - {"session_seconds"} <= refused <= set(Settings.model_fields)


def test_the_values_of_the_page_give_each_component_its_own_user(tmp_path: Path) -> None:
    page = (chart.CHART.parents[1] / "docs/cluster.md").read_text()
    (text,) = re.findall(r"```yaml\n(# values.yaml\n.*?)```", page, re.DOTALL)
    values = tmp_path / "values.yaml"
    values.write_text(text)
    output = chart.output(values)
    users = {
        variable["valueFrom"]["secretKeyRef"]["name"]
        for pod in chart.pods(chart.resources(output)).values()
        for variable in pod["spec"]["containers"][0]["env"]
        if variable["name"] == "TIDEGATE_KAFKA_SASL_PASSWORD"
    }
    named = ("topology", "ingress", "pipeline", "delivery", "operator")
    assert users == {f"tidegate-{name}" for name in named}
    without = ("template", "--values", chart.BASE, "--values", values, "--set", "layout=apart")
    assert "a kafkaUser of each of: dedup, dispatcher, scheduler" in chart.run(*without).stderr


def test_the_page_s_commands_give_the_chart_partitions_routes_and_sizes(tmp_path: Path) -> None:
    page = (chart.CHART.parents[1] / "docs/cluster.md").read_text()
    clone = tmp_path / "clone"
    clone.mkdir()
    copied = "cp ../helpdesk/topology.yaml overlay.yaml"
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [copied in block for block in blocks] == [True, False]
    project.make(tmp_path / "helpdesk")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks:
        subprocess.run(
            ["bash", "-ec", block], cwd=clone, env={**os.environ, "PATH": path}, check=True
        )
    found = chart.resources(chart.output(clone / "overlay-values.yaml", clone / "sizes.yaml"))
    config = chart.of_kind(found, "ConfigMap")["tide-tidegate-topology"]
    topology = yaml.safe_load(config["data"]["topology.yaml"])
    assert (topology["partitions"], topology["routes"][0]["job"]) == (24, "answer_ticket")
    pipeline = chart.of_kind(found, "StatefulSet")["tide-tidegate-pipeline"]["spec"]
    claim = pipeline["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]
    assert (pipeline["replicas"], claim["storage"]) == (12, "160Gi")
    assert "tide-tidegate-operator" in chart.of_kind(found, "StatefulSet")


def test_a_topology_that_fuses_nothing_has_its_stages_apart(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("topology: {overlay: {fused: []}}")
    pods = chart.pods(chart.resources(chart.output(values)))
    assert "tide-tidegate-pipeline" not in pods
    assert {f"tide-tidegate-{name}" for name in ("dedup", "scheduler", "dispatcher")} <= pods.keys()


@pytest.mark.parametrize(
    ("component", "given", "says"),
    [
        ("delivery", "maxReplicas=9", "maxReplicas is 9, but only 4 pods"),
        ("delivery", "minReplicas=6", "minReplicas is 6, but there may be 4 pods at most"),
        ("ingress", "maxReplicas=1", "minReplicas is 2, but there may be 1 pods at most"),
    ],
)
def test_autoscaling_that_cannot_work_is_refused(component: str, given: str, says: str) -> None:
    scaled = f"{component}.autoscaling"
    wanted = f"{scaled}.enabled=true,{scaled}.{given}"
    done = chart.run("template", "--values", chart.BASE, "--set", wanted)
    assert f"{scaled}.{says}" in done.stderr


@pytest.mark.parametrize(
    ("pools", "refused"), [("[]", True), ("[{name: Big.jobs}]", False), ("[{name: big}]", True)]
)
def test_a_worker_of_a_pool_that_the_topology_does_not_have_is_refused(
    pools: str, refused: bool, tmp_path: Path
) -> None:
    """Its process would end at each start. A pool may have any name that the topology takes."""
    values = tmp_path / "values.yaml"
    values.write_text(
        f"topology: {{overlay: {{pools: {pools}}}}}\n"
        "workers: {answers: {app: 'a:b', pool: Big.jobs}}\n"
    )
    done = chart.run("template", "--values", chart.BASE, "--values", values)
    told = "workers.answers.pool is Big.jobs, which the topology does not have: declare it under"
    assert (told in done.stderr) is refused is (done.returncode != 0)


def test_the_readme_has_all_values_as_they_are() -> None:
    """`make chart` writes the table anew."""
    assert (chart.CHART / "README.md").read_text() == chart_readme.filled()


def test_the_notes_name_the_first_three_commands_and_what_is_missing() -> None:
    done = chart.run("install", "--dry-run=client", "--values", chart.BASE, "--set", "workers=null")
    notes = done.stdout.partition("NOTES:")[2]
    commands = [line.strip() for line in notes.splitlines() if line.startswith("  ")]
    assert len(commands) == 3
    assert "No worker runs" in notes
    assert "Vendors cannot reach the ingress" in notes
    assert "Prometheus cannot scrape" not in notes


def test_the_notes_say_what_a_public_service_shows() -> None:
    public = "ingress.service.type=LoadBalancer"
    done = chart.run("install", "--dry-run=client", "--values", chart.BASE, "--set", public)
    assert "it shows /metrics to whoever reaches it" in done.stdout
    assert "Vendors cannot reach the ingress" not in done.stdout


def test_the_notes_say_what_prometheus_cannot_scrape() -> None:
    wanted = "monitoring.serviceMonitor.enabled=true"
    done = chart.run("install", "--dry-run=client", "--values", chart.BASE, "--set", wanted)
    assert "Prometheus cannot scrape operator and analytics" in done.stdout
