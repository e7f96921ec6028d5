"""The chart's pods as processes on a real broker: commands, variables, ports, probes and ends.

Whatever a container of the chart runs is run here with what the chart gives it, and nothing else.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from support import chart, helm_tools, promql_tool
from support.chart import Resource
from support.conditions import PATIENCE_SECONDS
from support.exported import not_exported
from support.kafka_under_test import KafkaUnderTest
from support.pods import Node, Pod, all_ready, job_pod, pods_of
from support.whole_calls import TOKEN, Calls

pytestmark = [pytest.mark.broker, pytest.mark.long]

SECRETS = {
    "tidegate-keys": {
        "vault.key": os.urandom(32),
        "link-token": b"a token that workers dial with",
        "admin-token": TOKEN.encode(),
    }
}
APPLICATION = """
from streams import App, Context
app = App("answers")

@app.job("answer")
async def answer(ctx: Context):
    return {"answered": (await ctx.json())["id"]}
"""


@dataclass
class Release:
    """A release of the chart on this machine, upgraded as Helm would."""

    node: Node
    values: Path
    objects: list[Resource] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def render(self, **values: Any) -> None:
        """Render the chart with these values over those of the test."""
        over = self.node.directory / "over.yaml"
        over.write_text(yaml.safe_dump(values))
        self.objects = chart.resources(chart.output(self.values, over))

    def apply_topology(self) -> Pod:
        """Run the hook before an install or upgrade to its end."""
        pod = job_pod(self.node, self.objects, "tide-tidegate-topology-apply").start()
        pod.wait()
        return pod

    def roll_out(self) -> None:
        """Start what is new or changed and stop what is gone, without an order between them."""
        wanted = {pod.name: pod for pod in pods_of(self.node, self.objects)}
        running = {pod.name: pod for pod in self.pods}
        kept = [
            pod for name, pod in running.items() if name in wanted and pod.spec == wanted[name].spec
        ]
        stays = {pod.name for pod in kept}
        started = [pod.start() for name, pod in wanted.items() if name not in running]
        layout = job_pod(self.node, self.objects, "tide-tidegate-layout").start()
        for name, pod in running.items():
            if name not in stays:
                assert pod.stop() == 0, pod.log
                started += [wanted[name].start()] if name in wanted else []
        self.pods = kept + started
        while layout.wait() != 0:  # its Job starts it again
            layout.start()
        all_ready(self.pods)

    def component(self, name: str) -> Pod:
        return next(pod for pod in self.pods if pod.name == f"tide-tidegate-{name}-0")

    def calls(self) -> Calls:
        """Calls of the Services of operator and ingress."""
        url = {
            name: f"http://{self.component(name).address}:8080" for name in ("operator", "ingress")
        }
        return Calls(**url)


@pytest.fixture
def release(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[Release]:
    helm_tools.require()
    helm_tools.require(promql_tool.program)
    prefix = f"{tmp_path.name}."
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(_values(kafka, prefix)))
    files = {"application": {"answers-1.0-py3-none-any.whl": _wheel(tmp_path)}}
    made = Release(Node(tmp_path, SECRETS, files), values)
    yield made
    for pod in made.pods:
        pod.kill()
    admin = AdminClient(kafka.client())
    mine = [
        name
        for name in admin.list_topics(timeout=PATIENCE_SECONDS).topics
        if name.startswith(prefix)
    ]
    for deleted in (admin.delete_topics(mine) if mine else {}).values():
        deleted.result(30)


def _values(kafka: KafkaUnderTest, prefix: str) -> Resource:
    one = {"replicas": 1}
    stage = one | {"settings": {"session_seconds": 6}}
    return {
        "kafka": {"bootstrap": kafka.bootstrap, "topicPrefix": prefix},
        "topology": {
            "allowUnsafe": True,
            "overlay": {
                "partitions": 2,
                "routes": [{"match": {"source": "shop", "event_type": "*"}, "job": "answer"}],
            },
        },
        "ingress": one,
        "operator": one,
        "delivery": stage,
        "analytics": stage | {"enabled": True},
        "pipeline": stage | {"replicas": 2},
        "dedup": stage,
        "scheduler": stage,
        "dispatcher": stage,
        "workers": {
            "answers": one
            | {
                "app": "answers:app",
                "wheel": {
                    "volume": {"configMap": {"name": "application"}},
                    "files": ["answers-1.0-py3-none-any.whl"],
                },
            }
        },
    }


def _wheel(directory: Path) -> bytes:
    """A wheel with the application."""
    path, info = directory / "answers.whl", "answers-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("answers.py", APPLICATION)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: answers\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


def test_an_unsafe_topology_is_refused_before_anything_changes(
    release: Release, kafka: KafkaUnderTest
) -> None:
    release.render(topology={"allowUnsafe": False})
    refused = release.apply_topology()
    assert refused.ended() == 1, refused.log
    assert "--allow-unsafe" in refused.log
    topics = AdminClient(kafka.client()).list_topics(timeout=PATIENCE_SECONDS).topics
    assert not any(name.startswith(release.node.directory.name) for name in topics)


def test_the_pods_run_an_event_to_its_job_in_both_layouts_and_end_in_time(
    release: Release,
) -> None:
    release.render()
    assert release.apply_topology().ended() == 0
    release.roll_out()
    calls = release.calls()
    calls.make_source()
    assert calls.result(calls.deliver(1)) == {"answered": 1}
    assert {pod.restarts for pod in release.pods} == {0}
    assert not_exported(pod.get("/metrics") for pod in release.pods) == []

    release.render(layout="apart")
    assert release.apply_topology().ended() == 0
    release.roll_out()
    assert calls.result(calls.deliver(2)) == {"answered": 2}
    assert calls.result(calls.deliver(1)) == {"answered": 1}
    assert not_exported(pod.get("/metrics") for pod in release.pods) == []

    for pod in release.pods:
        assert pod.probe("liveness"), pod.name
        assert pod.stop() == 0, pod.log[-2000:]
        assert pod.strays() == [], pod.name
