"""The documents name what is there: topics, states, settings, metrics, commands, each other."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
import typer
from confluent_kafka.admin import AdminClient
from prometheus_client import REGISTRY

from ingress.receive import problems
from ingress.schemes import SCHEMES
from ingress.schemes.senders import SENDERS
from ingress.tenants.sources import Closed
from streams.analytics.metrics import TablesCollector
from streams.analytics.partitions import Assignment, Partitions
from streams.api.read_model.database import Database
from streams.cli.main import application
from streams.operator import metrics as operator_metrics
from streams.operator.broker_view import BrokerView, ReplicaHealth
from streams.operator.counts import Counts
from streams.operator.key_age import KeyAgeCollector
from streams.serde import delivery_states
from streams.serde.codec import COMMAND
from streams.serde.job_states import JOB_STATES
from streams.serde.records.commands import COMMANDS
from streams.settings import Settings
from streams.topology.load import load
from streams.vault.key_encryption import local_vault

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT.glob("examples/*/README.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *EXAMPLES])
INDEX = ROOT / "docs/index.md"
_DAY_MS = 86_400_000
_METRIC_MODULES = (
    "ingress.receive.quarantine",
    "ingress.receive.receiver",
    "ingress.tenants.references",
    "ingress.http.router",
    "streams.dedup.processor",
    "streams.delivery.metrics",
    "streams.dispatcher.metrics",
    "streams.link.metrics",
    "streams.bulk.owned",
    "streams.event_replay.carrier",
    "streams.event_replay.replaying",
    "streams.api.live.hub",
    "streams.api.session.http",
    "streams.runtime.metrics",
    "streams.telemetry",
    "streams.tenants.follower",
    "streams.worker.metrics",
    "streams.analytics.counting",
    "streams.certificates",
    "streams.vault.key_encryption",
)


def first_cells(document: str, heading: str) -> list[str]:
    """Code in the first column of the first table below a heading."""
    text = f"\n{(ROOT / document).read_text()}".split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"^\|.*?(?=^[^|])", text, re.DOTALL | re.MULTILINE)
    assert rows is not None
    return re.findall(r"^\| `([^`]+)`", rows.group(), re.MULTILINE)


def test_the_flow_names_every_topic_with_its_retention() -> None:
    rows = dict(
        re.findall(
            r"^\| `([^`]+)` \| [^|]+ \| [^|]+ \| ([^|]+) \|",
            (ROOT / "docs/flow.md").read_text(),
            re.MULTILINE,
        )
    )
    kept = {
        topic.name: "last value of each key"
        if topic.retention_ms is None
        else f"{topic.retention_ms // _DAY_MS} day" + "s" * (topic.retention_ms > _DAY_MS)
        for topic in load().topics.values()
    }
    assert rows == kept


def test_the_states_of_a_job_are_listed_as_their_table_has_them() -> None:
    words = {True: "yes", False: "no"}
    listed = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| (yes|no) \| (yes|no) \| (yes|no) \|$",
        (ROOT / "docs/jobs.md").read_text(),
        re.MULTILINE,
    )
    assert listed == [
        (each.name, words[each.is_terminal], words[each.is_replayable], words[each.is_sent])
        for each in JOB_STATES
    ]


def test_the_states_of_a_delivery_are_listed_as_their_table_has_them() -> None:
    listed = first_cells("docs/deliveries.md", "# Deliveries")
    assert tuple(listed) == delivery_states.NAMES


def test_the_commands_are_listed_as_their_schema_describes_them() -> None:
    listed = re.findall(
        r"^\| `([A-Z]\w+)` \| (\w+) \| ([^|]+) \|$",
        (ROOT / "docs/flow.md").read_text(),
        re.MULTILINE,
    )
    stages = {"operator": "operator", "timer": "scheduler", "worker": "worker"}
    (body,) = (f for f in COMMAND.schema.parsed["fields"] if f["name"] == "body")
    means = [each["doc"] for each in body["type"]]
    rows = zip(COMMANDS, means, strict=True)
    assert listed == [(kind.name, stages[kind.sender], doc) for kind, doc in rows]


def test_every_answer_to_a_sender_is_listed_with_its_status() -> None:
    rows = (ROOT / "docs/answers.md").read_text()
    listed = set(re.findall(r"^\| (\d{3}) `([^`]+)`", rows, re.MULTILINE))
    declared = {
        (str(each.status), each.name)
        for each in vars(problems).values()
        if isinstance(each, problems.Problem)
    }
    assert listed == declared | {("202", "accepted"), ("202", "quarantined"), ("200", "duplicate")}


def test_every_cause_of_a_refused_signature_is_listed_with_its_remedy_and_no_other() -> None:
    rows = (ROOT / "docs/answers.md").read_text().partition("| cause of `unauthorized`")[2]
    listed = re.findall(r"^\| `(\w+)` \| \S", rows.partition("\n\n")[0], re.MULTILINE)
    code = "".join(path.read_text() for path in (ROOT / "ingress/schemes").rglob("*.py"))
    signed = set(re.findall(r'SignatureError\(\s*"(\w+)"', code))
    at_the_source = {"unknown_scheme", "bad_options", "bad_secret"}  # when it is put, not delivered
    assert set(listed) == (signed - at_the_source) | set(get_args(Closed))
    assert len(listed) == len(set(listed))


def test_every_setting_is_listed() -> None:
    listed = first_cells("docs/settings.md", "# Settings")
    assert {name.strip("[]") for name in listed} == set(Settings.model_fields)


def test_every_metric_is_listed_and_no_other() -> None:
    for module in _METRIC_MODULES:
        importlib.import_module(module)
    declared = {
        family.name + "_total" * (family.type == "counter")
        for family in REGISTRY.collect()
        if family.name.startswith("tidegate_")
    }
    declared |= {family.name for family in operator_metrics._of_counts(Counts({}, 0, None))}
    admin, vault = cast(AdminClient, None), local_vault(b"k" * 32)
    view = BrokerView(admin, ())
    view._health = ReplicaHealth()
    declared |= {family.name for family in view.collect()}
    age = KeyAgeCollector(Database(Path("unopened")), lambda: False, vault)
    declared |= {family.name for family in age.collect()}
    none = Assignment("", 0, {})
    counted = cast(Partitions, SimpleNamespace(assigned=True, assignment=none))
    declared |= {family.name for family in TablesCollector(lambda: counted).collect()}
    declared |= {"tidegate_operator_ready", "tidegate_up"}
    assert set(first_cells("docs/metrics.md", "# Metrics")) == declared


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in _links(document):
        assert target.exists(), f"{document.name}: {target}"
        assert not anchor or anchor in _anchors(target), f"{document.name}: {target}#{anchor}"


def test_every_page_is_reachable_from_the_index() -> None:
    found, todo = set[Path](), [INDEX]
    while todo:
        page = todo.pop()
        if page not in found:
            found.add(page)
            todo += [target for target, _ in _links(page) if target.suffix == ".md"]
    assert set((ROOT / "docs").rglob("*.md")) - found == set()


def test_every_page_in_docs_has_its_line_in_the_index() -> None:
    listed = {target for target, _ in _links(INDEX) if target.is_relative_to(ROOT / "docs")}
    assert listed == set((ROOT / "docs").rglob("*.md")) - {INDEX}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document: Path) -> None:
    root = typer.main.get_command(application([]))
    typed = re.compile(r"^(?: {4,}(?:\S+/)?|\$ )tidegate (.*)$", re.MULTILINE)
    for line in typed.findall(document.read_text()):
        command: Any = root
        words = line.split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        alone = getattr(command, "invoke_without_command", False)
        assert alone or not getattr(command, "commands", {}), f"tidegate {line}"
        flags = {flag for option in command.params for flag in option.opts}
        assert {word for word in words if word.startswith("--")} <= flags, f"tidegate {line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    typed = re.findall(r"^(?: {4,}|\$ )make ([a-z]+)", document.read_text(), re.MULTILINE)
    assert set(typed) <= set(targets)


def _links(document: Path) -> list[tuple[Path, str]]:
    """Files that a document links to, and the heading in each, "" for none."""
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", document.read_text())
    return [
        ((document.parent / path).resolve() if path else document, anchor) for path, anchor in links
    ]


def _anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_scheme_is_listed_with_its_preset() -> None:
    text = (ROOT / "docs/ingress.md").read_text()
    listed = [first_cells("docs/ingress.md", f"## {part}") for part in ("Schemes", "More senders")]
    assert listed == [[name for name in SCHEMES if name not in SENDERS], list(SENDERS)]
    presets = re.findall(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", text.split("## Presets")[1], re.M)
    assert re.findall(r"`([^`]+)`", " ".join(presets)) == list(SCHEMES)


def test_every_option_of_a_scheme_is_listed() -> None:
    text = (ROOT / "docs/ingress.md").read_text().split("## Options")[1].split("## Presets")[0]
    options = {name for scheme in SCHEMES.values() for name in scheme.options.model_fields}
    cells = re.findall(r"^\|[^|]*\| ((?:`[a-z_]+`(?:, )?)+) \|", text, re.M)
    assert set(re.findall(r"`([^`]+)`", " ".join(cells))) == options
