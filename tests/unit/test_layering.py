"""Packages import packages of lower layers alone, and processors import no Kafka client."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.api.resources import RESOURCES

ROOT = Path(__file__).resolve().parents[2]
LAYERS = (
    {
        "streams.errors",
        "streams.http",
        "streams.process",
        "streams.shipped_files",
        "streams.dev_state",
        "streams.model_faults",
        "streams.user_json",
    },
    {
        "ingress.formats",
        "streams.redaction",
        "streams.serde",
        "streams.settings",
        "streams.state",
    },
    {"streams.access", "streams.kafka", "streams.ledger_entries"},
    {
        "ingress.schemes",
        "streams.audit",
        "streams.broker",
        "streams.certificates",
        "streams.dead_letter",
        "streams.event_match",
        "streams.ledger",
        "streams.schedules",
        "streams.schemas",
        "streams.topology",
        "streams.tracing",
        "streams.vault",
    },
    {"streams.limits"},
    {
        "ingress.samples",
        "streams.approval_edits",
        "streams.artifacts",
        "streams.delivery.egress",
        "streams.delivery.message",
        "streams.fairness",
        "streams.new_jobs",
        "streams.retry_policy",
        "streams.served_tls",
        "streams.telemetry",
    },
    {"streams.probe_routes", "streams.runtime", "streams.tenants"},
    {
        "streams.audit_topic",
        "streams.closed_tenants",
        "streams.event_admission",
        "streams.event_reader",
        "streams.link",
    },
    {"streams.bulk", "streams.event_export", "streams.event_replay"},
    # The stages: none imports another. `streams` is what an application imports of the worker.
    {
        "ingress.rates",
        "ingress.tenants",
        "streams.analytics",
        "streams.api",
        "streams.dedup",
        "streams.delivery",
        "streams.dispatcher",
        "streams.scheduler",
        "streams.worker",
    },
    {
        "ingress.receive",
        "streams",
        "streams.console",
        "streams.credentials",
        "streams.middleware",
    },
    {"streams.operator"},
    {"ingress.http", "streams.stages"},
    {"streams.doctor", "streams.pipeline"},
    {"streams.dev"},
    {"streams.cli", "streams.demo", "streams.new", "streams.testing"},
)
"""The rooms of the house from the ground up: each a package or module of `streams` or `ingress`."""

PROCESSORS = (
    "streams.audit",
    "streams.closed_tenants",
    "streams.dead_letter",
    "streams.dedup",
    "streams.delivery.message",
    "streams.dispatcher",
    "streams.event_match",
    "streams.fairness",
    "streams.ledger",
    "streams.ledger_entries",
    "streams.limits",
    "streams.new_jobs",
    "streams.retry_policy",
    "streams.scheduler",
    "streams.schedules",
)


OF_GROUPS = {
    "streams.broker.class_archive",
    "streams.api.events.cli_seek",
    "streams.event_reader.reader",
    "streams.kafka.carrier",
    "streams.topology.rights_watch",
}
"""Modules whose consumers join a consumer group, or ask for one."""


def modules() -> dict[str, Path]:
    """Every module of the product by its full name."""
    paths = [p for package in ("streams", "ingress") for p in (ROOT / package).rglob("*.py")]
    named = {".".join(p.relative_to(ROOT).with_suffix("").parts): p for p in sorted(paths)}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


MODULES = modules()


def imports(module: str) -> Iterator[str]:
    """Full names of what a module imports, wherever in it."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


def room(module: str) -> str:
    """The package or module that has a layer; one of a stage that others may use has its own.

    The commands of a resource stand beside its calls, but they belong to the command line.
    """
    parts = module.split(".")
    if parts[:2] == ["streams", "api"] and re.match("cli(_|$)", parts[-1]):
        return "streams.cli"
    inner = ".".join(parts[:3])
    return inner if any(inner in rooms for rooms in LAYERS) else ".".join(parts[:2])


def layer(name: str) -> int:
    return next(index for index, rooms in enumerate(LAYERS) if name in rooms)


def test_every_room_has_its_layer_and_every_name_a_room() -> None:
    rooms = {room(module) for module in MODULES} - {"ingress"}
    assert rooms == set().union(*LAYERS)
    assert sum(map(len, LAYERS)) == len(rooms)


@pytest.mark.parametrize("name", sorted(set().union(*LAYERS)))
def test_a_room_imports_rooms_of_lower_layers_alone(name: str) -> None:
    found = [
        f"{module}: {imported}"
        for module in MODULES
        if room(module) == name
        for imported in imports(module)
        if imported in MODULES and room(imported) != name and layer(room(imported)) >= layer(name)
    ]
    assert found == []


def test_nothing_of_the_product_imports_what_tests_run_on() -> None:
    found = [
        m
        for m in MODULES
        if room(m) != "streams.testing"
        for i in imports(m)
        if room(i) == "streams.testing"
    ]
    assert found == []


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_imports_no_kafka_client(processor: str) -> None:
    clients = {"confluent_kafka", "streams.kafka"}
    ours = [module for module in MODULES if f"{module}.".startswith(f"{processor}.")]
    assert ours
    found = [f"{m}: {name}" for m in ours for name in imports(m) if clients & {name, room(name)}]
    assert found == []


def test_what_is_no_stage_and_in_no_group_reads_by_a_tail() -> None:
    """A consumer of its own would have to know again which of Kafka's errors last."""
    makes = re.compile(r"(?<!class )\bConsumer\(")
    found = {name for name, path in MODULES.items() if makes.search(path.read_text())}
    assert {name for name in found if room(name) != "streams.runtime"} == OF_GROUPS | {
        "streams.kafka.tail"
    }


HTTP = {"aiohttp", "streams.http.problem"}
TERMINAL = {"typer", "streams.cli"}
WRITING = {"streams.api.command_results", "streams.api.tenants.writes"}
"""Modules that only use cases need: a call parses a request, asks one of them, and answers."""


def role(module: str) -> str:
    """The role of a module of the API, by its name (`streams/api/__init__.py` tells them)."""
    folder, name = module.split(".")[2:3], module.rsplit(".", maxsplit=1)[-1]
    if room(module) == "streams.cli":
        return "command"
    if folder == ["serving"] or re.match("http(_|$)", name):
        return "call"
    if folder == ["rows"] or re.search("(^|_)table$", name):
        return "table"
    return "use case"


API = {module: role(module) for module in MODULES if module.startswith("streams.api.")}
MAY_IMPORT = {
    "table": {"table", "use case"},  # of these, what reads alone: a test below
    "use case": {"table", "use case"},
    "call": {"table", "use case", "call"},
    "command": {"command"},
}


def test_each_role_of_the_api_imports_those_below_it_alone() -> None:
    found = [
        f"{module}: {imported}"
        for module, of in API.items()
        for imported in imports(module)
        if imported in API and API[imported] not in MAY_IMPORT[of]
    ]
    assert found == []


@pytest.mark.parametrize(("role", "theirs"), [("call", HTTP), ("command", TERMINAL)])
def test_only_calls_know_http_and_only_commands_the_terminal(role: str, theirs: set[str]) -> None:
    found = [
        f"{module}: {imported}"
        for module, of in API.items()
        for imported in imports(module)
        if of != role and theirs & {imported, imported.split(".")[0], room(imported)}
    ]
    assert found == []


def test_a_table_imports_only_what_reads() -> None:
    """Neither a table nor what it imports can refuse a call, or write."""
    writes = {"streams.api.operator_state", "streams.api.refusal", "pydantic"}
    seen = [module for module, of in API.items() if of == "table"]
    for module in seen:
        seen += sorted({name for name in imports(module) if name in API} - set(seen))
    assert [m for m in seen if writes & set(imports(m)) or m.startswith("streams.api.read")] == []


def test_a_call_leaves_every_change_to_a_use_case() -> None:
    found = [m for m, of in API.items() if of == "call" and WRITING & set(imports(m))]
    assert found == []


def test_every_folder_with_a_table_or_calls_is_a_resource() -> None:
    folders = {m.split(".")[2] for m, of in API.items() if of in ("table", "call")}
    assert folders - {"rows", "serving"} == {resource.folder for resource in RESOURCES}
