"""Tidegate's rows: its stages fused, and apart.

The processes are those of `tidegate dev`, without delivery, which would have nothing to deliver.
`dev` itself is left out, since the benchmark starts again what it has killed.

Under kills a job is stuck if the worker died in its call of the tool: since that knows no keys,
nobody can tell whether it happened, and the job waits in `needs_review` for a person. A run whose
end found no Kafka for longer than its lease lasts (30 s) begins again, and gets the result of the
effect that is done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from sources import create_sources

from peers.contract import Part, Peer, Place, Role
from peers.webhooks import Webhook
from streams.broker.jars import kafka_version
from streams.broker.ports import HOST, pick_free
from streams.broker.status import read_status
from streams.dev.credentials import credentials
from streams.dev.layout import Layout, Member, command, environment, held, members, waves
from streams.serde.ids import event_job_id
from streams.serde.job_states import LIVE
from streams.settings import Settings, load_settings
from streams.topology.apply import apply
from streams.topology.load import load
from streams.topology.plan import Consent

APP = "peers.tidegate.app:app"
ROUTES = Path(__file__).with_name("topology.yaml")
ADMIN_TOKEN = "opens the benchmark's operator API"
ROLES: dict[str, Role] = {"ingress": "front", "worker": "worker"}
"""The other stages are servers."""


def parts(place: Place) -> Iterator[Part]:
    """Kafka, the operator, what owns the jobs, a worker and the ingress, which gets its sources."""
    settings = _settings(place)
    placed = tuple(_placed(place))
    with held(placed):
        yield _kafka(settings)
    apply(load(settings.topology), settings, Consent(unsafe=True))
    yield from _stages(place, settings, placed)


def _placed(place: Place) -> Iterator[Member]:
    """Where the processes listen, the ingress at the port of the front."""
    layout = Layout.apart if place.settings["stages"] == "apart" else Layout
    for member in members(layout(delivery=0)):
        yield replace(member, port=place.port) if member.stage == "ingress" else member


def _settings(place: Place) -> Settings:
    topology = place.folder / "topology.yaml"
    topology.write_text(f"partitions: {place.settings['partitions']}\n{ROUTES.read_text()}")
    return load_settings(
        data_dir=place.folder / "data",
        bootstrap=f"{HOST}:{pick_free()}",
        topology=topology,
        admin_token=ADMIN_TOKEN,
        slots=place.settings["slots"],
        log_level="warning",
    )


def _kafka(settings: Settings) -> Part:
    data, port = settings.data_dir, settings.bootstrap.rpartition(":")[2]
    words = [*command(), "broker", "start", "--data-dir", str(data), "--port", port]
    return Part("kafka", "store", words, lambda: read_status(data).running)


def _stages(place: Place, settings: Settings, placed: tuple[Member, ...]) -> Iterator[Part]:
    """Each is ready before the next one: whoever decides before the worker, the ingress last."""
    urls = {member.stage: member.url for member in placed}
    env = environment(settings, {**place.env, **credentials(settings).environment()})
    for spec in (spec for wave in reversed(waves(placed, settings, APP, env)) for spec in wave):
        stage = spec.name.partition("-")[0]
        asked = partial(_unfinished, urls["operator"]) if stage == "operator" else None
        ready = partial(_is_ready, spec.ready_url)
        yield Part(stage, ROLES.get(stage, "server"), spec.argv, ready, spec.env, unfinished=asked)
    to_all = create_sources(urls["operator"], ADMIN_TOKEN, urls["ingress"], place.tenants)
    asyncio.run(to_all)


def _is_ready(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _unfinished(url: str) -> dict[str, str]:
    """The jobs that the operator lists in a state that is no end, also those in `needs_review`.

    What it has not read yet it does not list; but of a work that goes on it has read some jobs'
    beginning and not their end.
    """
    return {str(job["job_id"]): status for status in LIVE for job in _listed(url, status)}


def _named(webhook: Webhook) -> str:
    return event_job_id(webhook.tenant, "bench", webhook.event_id)


def _listed(url: str, status: str) -> Iterator[Any]:
    """All jobs of a state, page by page."""
    asked, cursor = {"status": status, "limit": 200}, ""
    while cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        page = _page(f"{url}/v1/jobs?{urlencode(asked | more)}")
        yield from page["jobs"]
        cursor = page["next_cursor"]


def _page(url: str) -> Any:
    asked = Request(url, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urlopen(asked, timeout=30) as answer:
        return json.load(answer)


FUSED = Peer(
    "Tidegate",
    parts,
    packages=("confluent-kafka", "aiohttp", "uvloop"),
    lock=Path(__file__).parents[3] / "requirements.lock",
    named=_named,
    server=lambda: f"Tidegate {version('tidegate')}, Kafka {kafka_version()}",
    licence="Apache-2.0",
    keeps="SIGKILL of Kafka, not a loss of power (one node, which leaves the disk to the system)",
    settings={"stages": "fused", "partitions": "2", "slots": "200"},
    swept={"partitions": ("1", "4", "8"), "slots": ("20", "50", "400")},
)
APART = replace(
    FUSED, name="Tidegate, stages apart", settings={**FUSED.settings, "stages": "apart"}
)
