"""The pods of the rendered chart as processes of this machine, as a kubelet would run them.

Each pod has a loopback address of its own, so that all can use the chart's port. A volume is a
directory, and its path stands in for the path at which the container mounts it. The environment is
what the chart gives and nothing else. Unlike a kubelet, this enforces no read-only root, no user
without rights, and no limits; instead `strays` tells what a process wrote outside its volumes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from support.chart import Resource, of_kind
from support.conditions import PATIENCE_SECONDS, eventually, exit_code

_BIN = Path(sys.executable).parent
_ADDRESSES = (f"127.{os.getpid() % 200 + 20}.{n // 250}.{n % 250 + 1}" for n in count())


@dataclass
class Node:
    """A machine that runs pods; `secrets` are the cluster's Secrets, by name and entry."""

    directory: Path
    secrets: Mapping[str, Mapping[str, bytes]]
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Further ConfigMaps, which are not the chart's."""
    addresses: dict[str, list[str]] = field(default_factory=dict)
    """Those of the pods of a workload, whose headless Service has its name."""

    def links(self, named: str) -> str:
        """Where owners of jobs listen, for the address that names their Service."""
        scheme, _, place = named.partition("://")
        service, _, port = place.partition(":")
        return ",".join(f"{scheme}://{address}:{port}" for address in self.addresses[service])

    def volume(self, pod: Pod, volume: Resource, objects: list[Resource]) -> Path:
        """The directory of a volume, with its files."""
        made: Path = self.directory / pod.name / volume["name"]
        made.mkdir(parents=True, exist_ok=True)
        maps = {name: each["data"] for name, each in of_kind(objects, "ConfigMap").items()}
        for name, content in self._content(volume, maps):
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_bytes(content)
        return made

    def _content(self, volume: Resource, maps: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            found = self.files.get(name) or {k: v.encode() for k, v in maps[name].items()}
            yield from found.items()
        for source in volume.get("projected", {}).get("sources", []):
            secret = self.secrets[source["secret"]["name"]]
            for item in source["secret"]["items"]:
                yield item["path"], secret[item["key"]]

    def variable(self, pod: Pod, variable: Resource) -> str:
        """The value of a variable of a container."""
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            wanted = source["secretKeyRef"]
            return self.secrets[wanted["name"]][wanted["key"]].decode()
        if "fieldRef" in source:
            return pod.field(source["fieldRef"]["fieldPath"])
        return str(variable["value"])


@dataclass
class Pod:
    """One pod of a workload; `ordinal` is its place in a StatefulSet."""

    node: Node
    owner: Resource
    ordinal: int
    objects: list[Resource]
    address: str = field(default_factory=lambda: next(_ADDRESSES))
    restarts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"{self.owner['metadata']['name']}-{self.ordinal}"

    @property
    def spec(self) -> Resource:
        found: Resource = self.owner["spec"]["template"]["spec"]
        return found

    @property
    def log(self) -> str:
        return (self.node.directory / f"{self.name}.log").read_text()

    @property
    def home(self) -> Path:
        """The working directory, which nothing may write to."""
        made = self.node.directory / self.name / "home"
        made.mkdir(parents=True, exist_ok=True)
        return made

    def field(self, path: str) -> str:
        """A field of the pod that the downward API gives."""
        known = {
            "metadata.name": self.name,
            "metadata.labels['apps.kubernetes.io/pod-index']": str(self.ordinal),
        }
        return known[path]

    def start(self) -> Pod:
        """Run the containers that initialize the pod, then its own."""
        for container in self.spec.get("initContainers", []):
            assert exit_code(self._run(container)) == 0, self.log
        self._process = self._run(self.spec["containers"][0])
        return self

    def ended(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self, seconds: float = 90) -> int:
        """Wait for the end, as for a Job's pod."""
        assert self._process is not None
        return self._process.wait(seconds)

    def get(self, path: str, port: str = "http") -> str:
        """What it answers at a path of a port of its container."""
        ports = {p["name"]: p["containerPort"] for p in self.spec["containers"][0]["ports"]}
        with urllib.request.urlopen(
            f"http://{self.address}:{ports[port]}{path}", timeout=PATIENCE_SECONDS
        ) as got:
            return str(got.read(), "utf-8")

    def probe(self, kind: str) -> bool:
        """Whether a probe of the container succeeds now."""
        asked = self.spec["containers"][0][f"{kind}Probe"]["httpGet"]
        try:
            self.get(asked["path"], asked["port"])
            return True
        except (OSError, urllib.error.URLError):
            return False

    def ready(self) -> bool:
        """Whether it is ready; a container that has ended is started again, as a kubelet does."""
        if self.ended() is not None:
            self.restarts += 1
            self.start()
        return self.probe("readiness")

    def stop(self) -> int:
        """End it as a kubelet does; returns the exit code, and fails after the grace period."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(self.spec["terminationGracePeriodSeconds"])

    def kill(self) -> None:
        """Make sure that nothing is left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def strays(self) -> list[str]:
        """What it wrote outside its volumes."""
        return sorted(path.name for path in self.home.iterdir())

    def _run(self, container: Resource) -> subprocess.Popen[bytes]:
        volumes = {each["name"]: each for each in self.spec["volumes"]}
        paths = {
            mount["mountPath"]: str(
                self.node.volume(self, volumes.get(mount["name"], mount), self.objects)
            )
            for mount in container["volumeMounts"]
        }
        given = {v["name"]: self.node.variable(self, v) for v in container.get("env", [])}
        environment = {name: self._here(value, paths) for name, value in given.items()}
        if "TIDEGATE_LINK" in given:
            environment["TIDEGATE_LINK"] = self.node.links(given["TIDEGATE_LINK"])
        command = [*container["command"], *container.get("args", [])]
        with (self.node.directory / f"{self.name}.log").open("ab") as log:
            return subprocess.Popen(
                [self._here(part, paths) for part in command],
                cwd=self.home,
                stdout=log,
                stderr=log,
                env=environment
                | {
                    "PATH": f"{_BIN}{os.pathsep}{os.defpath}",
                    "HOME": str(self.home),
                    "TMPDIR": paths["/tmp"],
                },
            )

    def _here(self, value: str, paths: Mapping[str, str]) -> str:
        """A value of the container with this machine's paths and address."""
        known = {**paths, "0.0.0.0": self.address}
        longest_first = sorted(map(re.escape, known), key=len, reverse=True)
        return re.sub("|".join(longest_first), lambda found: known[found[0]], value)


def pods_of(node: Node, objects: list[Resource]) -> list[Pod]:
    """All pods of the workloads; Jobs are not among them."""
    owners = of_kind(objects, "Deployment") | of_kind(objects, "StatefulSet")
    pods = [
        Pod(node, owner, ordinal, objects)
        for owner in owners.values()
        for ordinal in range(owner["spec"]["replicas"])
    ]
    for pod in pods:
        node.addresses.setdefault(pod.owner["metadata"]["name"], []).append(pod.address)
    return pods


def job_pod(node: Node, objects: list[Resource], name: str) -> Pod:
    """The pod of the Job whose name begins so."""
    jobs = of_kind(objects, "Job")
    found = next(job for known, job in jobs.items() if known.startswith(name))
    return Pod(node, found, 0, objects)


def all_ready(pods: list[Pod], seconds: float = 60) -> None:
    """Wait until all pods are ready; an error has the log of one that is not."""
    started = time.monotonic()
    with suppress(AssertionError):
        eventually(lambda: all(pod.ready() for pod in pods), seconds, what="pods ready")
        return
    late = next(pod for pod in pods if not pod.ready())
    waited = time.monotonic() - started
    raise AssertionError(f"{late.name} is not ready after {waited:.0f} s:\n{late.log[-3000:]}")
