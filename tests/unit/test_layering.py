"""Who may import whom: stages never each other, processors no Kafka client."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGES = {
    "ingress": {"ingress"},
    "dedup": {"streams.dedup.processor", "streams.dedup.duplicates"},
    "scheduler": {"streams.scheduler"},
    "dispatcher": {"streams.dispatcher", "streams.ledger"},
    "worker": {"streams.worker"},
    "operator": {"streams.operator"},
}
PROCESSORS = (
    "streams.dedup.processor",
    "streams.dedup.duplicates",
    "streams.scheduler",
    "streams.dispatcher",
    "streams.ledger",
    "streams.fairness.ready_queue",
    "streams.fairness.lanes",
    "streams.fairness.oldest",
    "streams.fairness.passes",
    "streams.fairness.rises",
    "streams.fairness.limits",
    "streams.retry_policy",
    "streams.dead_letter",
)


def imports(path: Path) -> Iterator[str]:
    """Full names of everything a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package: str) -> list[Path]:
    base = ROOT / package.replace(".", "/")
    return sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]


def inside(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_no_other_stage_and_not_what_wires_them(stage: str) -> None:
    others = {package for name, packages in STAGES.items() if name != stage for package in packages}
    others |= {"streams.cli", "streams.dev", "streams.demo", "streams.broker"}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in STAGES[stage]
        for path in modules(package)
        for name in imports(path)
        if inside(name, others)
    ]
    assert found == []


@pytest.mark.parametrize("package", PROCESSORS)
def test_a_processor_imports_no_kafka_client(package: str) -> None:
    kafka = {"confluent_kafka", "streams.kafka.clients"}
    found = [str(path) for path in modules(package) for n in imports(path) if inside(n, kafka)]
    assert found == []


def test_the_check_itself_sees_every_package() -> None:
    for packages in STAGES.values():
        for package in packages:
            assert all(path.exists() for path in modules(package))
            assert any(True for path in modules(package) for _ in imports(path))
