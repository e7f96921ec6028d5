"""Which processes run, on which ports, with which command line and environment."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ingress.http.public_port import PUBLIC_FD
from streams.access.oidc.issuer import is_local
from streams.broker.ports import HOST, pick_free
from streams.dev.process import ProcessSpec
from streams.settings import Settings
from streams.stages import STAGES
from streams.topology.model import LayoutName

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class Pool:
    """The worker processes of one pool; without `slots`, each has those of the settings."""

    name: str
    processes: int
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """How many processes of each stage run; those of `pipeline` replace three stages."""

    ingress: int = 1
    dedup: int = 0
    scheduler: int = 0
    dispatcher: int = 0
    pipeline: int = 1
    delivery: int = 1
    worker: int = 1
    operator: int = 1
    analytics: int = 0
    slots: int | None = None
    """Of each worker of the default pool, unless they are those of the settings."""
    pools: tuple[Pool, ...] = ()
    """Pools with worker processes of their own, beside those of the default pool."""

    @classmethod
    def apart(
        cls, dedup: int = 1, scheduler: int = 1, dispatcher: int = 1, **others: Any
    ) -> Layout:
        """The layout with those three stages as separate processes."""
        return cls(dedup=dedup, scheduler=scheduler, dispatcher=dispatcher, pipeline=0, **others)

    @property
    def name(self) -> LayoutName:
        """The name that `tidegate topology layout` uses."""
        return "fused" if self.pipeline else "apart"


@dataclass(frozen=True, slots=True)
class Member:
    """One process of the pipeline; `port` serves its probes and, if it has one, its API.

    An owner of jobs listens for workers at `link_port`.
    """

    stage: str
    instance: str
    port: int
    link_port: int | None = None
    pool: str = DEFAULT_POOL
    slots: int | None = None

    @property
    def label(self) -> str:
        """The instance, which another pool may have as well, and so names its pool."""
        return self.instance if self.pool == DEFAULT_POOL else f"{self.pool}-{self.instance}"

    @property
    def name(self) -> str:
        return f"{self.stage}-{self.label}"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def ready_url(self) -> str:
        return f"{self.url}/readyz"


def members(layout: Layout) -> tuple[Member, ...]:
    """Every process of a layout on a free loopback port, which it keeps over its restarts.

    Raises:
        BrokerError: no port is free.
    """
    placed, taken = list[Member](), set[int]()
    for stage, instance, pool in _places(layout):
        taken.add(port := pick_free(frozenset(taken)))
        link = pick_free(frozenset(taken)) if STAGES[stage].owns_jobs else None
        taken |= {link} if link else set()
        placed.append(Member(stage, instance, port, link, pool.name, pool.slots))
    return tuple(placed)


@contextmanager
def held(placed: tuple[Member, ...]) -> Iterator[None]:
    """Keep others from taking the ports within the block; a connection there is refused."""
    with ExitStack() as stack:
        for port in filter(None, (p for member in placed for p in (member.port, member.link_port))):
            holder = stack.enter_context(socket.socket())
            with suppress(OSError):  # another process was quicker: ours will say so
                holder.bind((HOST, port))
        yield


def owners(placed: tuple[Member, ...]) -> list[str]:
    """Where the owners of jobs listen for workers."""
    return [f"ws://{HOST}:{member.link_port}" for member in placed if member.link_port]


LOOPBACK = ("127.0.0.0/8", "::1/128")
_INSIDE = ("TIDEGATE_BOOTSTRAP", "TIDEGATE_KAFKA_", "TIDEGATE_VAULT_", "TIDEGATE_TOPIC_PREFIX")
"""How the variables begin that workers are not given."""


def _places(layout: Layout) -> Iterator[tuple[str, str, Pool]]:
    for stage in STAGES:
        own = Pool(DEFAULT_POOL, getattr(layout, stage), layout.slots)
        for number in range(own.processes):
            yield stage, str(number), own
    for pool in layout.pools:
        for number in range(pool.processes):
            yield "worker", str(number), pool


def waves(
    placed: tuple[Member, ...],
    settings: Settings,
    app: str,
    env: Mapping[str, str],
    ingress_env: Mapping[str, str] = MappingProxyType({}),
) -> list[list[ProcessSpec]]:
    """The processes in the order in which they are stopped.

    `env` is the environment of each, with `ingress_env` for ingresses; the admin token goes to the
    operator and to analytics alone.
    """
    dialed = {"TIDEGATE_LINK": ",".join(owners(placed))}
    own = {"ingress": {**env, **ingress_env}, "worker": {**outside(env), **dialed}}
    return [
        [
            process_spec(m, settings, app, own.get(m.stage, env))
            for m in placed
            if STAGES[m.stage].wave == wave
        ]
        for wave in sorted({stage.wave for stage in STAGES.values()})
    ]


def environment(settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of every process: ours, the settings that no flag carries, and `given`.

    In development outgoing requests may reach this machine, and http is allowed.
    """
    kafka = {
        f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": value
        for name, value in settings.kafka.items()
    }
    return {
        **os.environ,
        **kafka,
        "TIDEGATE_TOPIC_PREFIX": settings.topic_prefix,
        "TIDEGATE_LOG_FORMAT": settings.log_format,
        "TIDEGATE_LOG_LEVEL": settings.log_level,
        "TIDEGATE_SLOTS": str(settings.slots),
        "TIDEGATE_ARTIFACTS": settings.artifacts
        or (settings.data_dir.resolve() / "artifacts").as_uri(),
        "TIDEGATE_EGRESS_ALLOW_NETWORKS": ",".join(
            map(str, (*LOOPBACK, *settings.egress_allow_networks))
        ),
        "TIDEGATE_EGRESS_ALLOW_HTTP": "true",
        **given,
    }


def outside(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of workers, which run an application's code: without Kafka and its keys."""
    return {name: value for name, value in env.items() if not name.startswith(_INSIDE)}


def public_address(settings: Settings, url: str) -> dict[str, str]:
    """Return the variable by which people can sign in on this machine, unless it is set."""
    if settings.public_url is not None or not is_local(url):
        return {}
    return {"TIDEGATE_PUBLIC_URL": url}


def process_spec(
    member: Member, settings: Settings, app: str, env: Mapping[str, str]
) -> ProcessSpec:
    """Command line and environment of one process; the command line contains no secret."""
    stage = STAGES[member.stage]
    port_flag = "--port" if stage.kind == "http" else "--probe-port"
    flags = {
        **({"--bootstrap": settings.bootstrap} if stage.kind != "worker" else {}),
        "--data-dir": str(settings.data_dir),
        "--instance": member.instance,
        "--host": HOST,
        port_flag: str(member.port),
        **({"--topology": str(settings.topology)} if settings.topology else {}),
        **({"--app": app} if stage.kind == "worker" else {}),
        **({"--pool": member.pool} if member.pool != DEFAULT_POOL else {}),
        **({"--slots": str(member.slots)} if stage.kind == "worker" and member.slots else {}),
    }
    others = {name for other in STAGES.values() for name in other.own} - set(stage.own)
    own = {name: value for name, value in env.items() if name not in others}
    if member.link_port:
        own["TIDEGATE_LINK_LISTEN"] = f"{HOST}:{member.link_port}"
    descriptors = (int(own[PUBLIC_FD]),) if PUBLIC_FD in own else ()
    words = (word for flag in flags.items() for word in flag)
    argv = (*command(), member.stage, *words)
    return ProcessSpec(member.name, argv, own, member.ready_url, descriptors)


def command() -> tuple[str, ...]:
    """How to start `tidegate`: the installed script, so that `ps` shows that name."""
    script = Path(sys.executable).with_name("tidegate")
    if script.exists():
        return (sys.executable, str(script))
    return (sys.executable, "-m", "streams.cli")
