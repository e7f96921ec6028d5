"""No module names a state by a literal: the tables of states have a constant for each."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from streams.serde import (
    approval_states,
    bulk_records,
    delivery_states,
    effect_states,
    job_states,
    replay_records,
    run_ends,
)

ROOT = Path(__file__).resolve().parents[2]
VOCABULARIES: dict[str, Any] = {
    "ApprovalStatus": approval_states.ApprovalStatus,
    "JobStatus": job_states.JobStatus,
    "DeliveryStatus": delivery_states.DeliveryStatus,
    "Circuit": delivery_states.Circuit,
    "ParkedBecause": delivery_states.ParkedBecause,
    "DisabledBecause": delivery_states.DisabledBecause,
    "EffectStatus": effect_states.EffectStatus,
    "OutcomeStatus": effect_states.OutcomeStatus,
    "SettledStatus": effect_states.SettledStatus,
    "ReportedEnd": run_ends.ReportedEnd,
    "RunEnd": run_ends.RunEnd,
    "ReplayStatus": replay_records.ReplayStatus,
    "BulkStatus": bulk_records.BulkStatus,
    "ItemOutcome": bulk_records.ItemOutcome,
}
NAMES = frozenset(name for words in VOCABULARIES.values() for name in get_args(words))
FIELDS = {"status", "circuit", "parked_because", "disabled_because"}
"""Fields and variables that hold a state."""
TABLES = {
    f"streams/serde/{name}.py"
    for name in (
        "approval_states",
        "job_states",
        "delivery_states",
        "effect_states",
        "run_ends",
        "replay_records",
        "bulk_records",
    )
}
SQL = re.compile(rf"\bstatus\s*(=|<>|!=|IN\s*\()\s*'({'|'.join(sorted(NAMES))})'", re.IGNORECASE)


def product() -> list[str]:
    found = (path for package in ("streams", "ingress") for path in (ROOT / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def trees() -> Iterator[ast.Module]:
    return (ast.parse((ROOT / module).read_text()) for module in product())


@cache
def places() -> dict[str, set[int]]:
    """At which places functions and dataclasses of the product take a state, by their name."""
    found: dict[str, set[int]] = defaultdict(set)
    for node in (node for tree in trees() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            taken = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
        elif isinstance(node, ast.ClassDef):
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            taken = [each.id for each in fields if isinstance(each, ast.Name)]
        else:
            continue
        found[node.name] |= {at for at, name in enumerate(taken) if name in FIELDS}
    return found


def literals(node: ast.AST | None) -> Iterator[ast.Constant]:
    """The states that an expression may be, as literals."""
    match node:
        case ast.Constant(value=str() as value) if value in NAMES:
            yield node
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from literals(part)
        case ast.IfExp(body=one, orelse=other):
            yield from literals(one)
            yield from literals(other)
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from literals(part)


def holds_state(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in FIELDS
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name in FIELDS
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str() as name), *_]):
            return name in FIELDS
        case ast.Tuple(elts=parts):
            return any(map(holds_state, parts))
    return False


def named(annotation: ast.AST | None) -> bool:
    """Whether an annotation names a vocabulary."""
    return annotation is not None and any(
        isinstance(part, ast.Name) and part.id in VOCABULARIES for part in ast.walk(annotation)
    )


def states_in(node: ast.AST) -> Iterator[ast.Constant]:
    """Literals that stand where a state is compared, passed, written or listed."""
    match node:
        case ast.Compare(left=left, comparators=others) if any(map(holds_state, [left, *others])):
            for part in (left, *others):
                yield from literals(part)
        case ast.Match(subject=subject, cases=cases) if holds_state(subject):
            for case in cases:
                for pattern in ast.walk(case.pattern):
                    if isinstance(pattern, ast.MatchValue):
                        yield from literals(pattern.value)
        case ast.keyword(arg=str() as name, value=value) if name in FIELDS:
            yield from literals(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=given):
            for at in places().get(name, set()) & set(range(len(given))):
                yield from literals(given[at])
        case ast.AnnAssign(annotation=annotation, value=assigned) if named(annotation):
            yield from literals(assigned)
        case ast.FunctionDef(returns=returns) if named(returns):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return):
                    yield from literals(inner.value)
        case ast.Dict(keys=keys, values=values):
            for key, written in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value in FIELDS:
                    yield from literals(written)
            yield from _if_all_are_states([key for key in keys if key is not None])
        case ast.Set(elts=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from _if_all_are_states(parts)


def _if_all_are_states(parts: list[ast.expr]) -> Iterator[ast.Constant]:
    found = [each for part in parts for each in literals(part)]
    if len(found) == len(parts) > 1:
        yield from found


def faults(code: str) -> set[tuple[int, str]]:
    """The lines of a module that name a state by a literal."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        found |= {(each.lineno, str(each.value)) for each in states_in(node)}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {(node.lineno, word) for _, word in SQL.findall(node.value)}
    return found


def test_every_module_takes_states_from_their_tables() -> None:
    modules = set(product()) - TABLES
    found = {each: faults((ROOT / each).read_text()) for each in modules}
    assert {module: sorted(lines) for module, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "code",
    [
        "job.status == 'running'",
        "if job['status'] in ('failed', 'dead'): pass",
        "if (job.status, job.run_id) == ('running', run): pass",
        "match job.status:\n case 'pending' | 'scheduled': pass",
        "replace(job, status='dead' if old else 'pending')",
        "RunResult('retry', error=text)",
        "ReplayProgress('paused', ())",
        "status: JobStatus = 'pending'",
        "def after() -> ReplayStatus | None:\n return 'paused' if at_rest else None",
        "ENDED = frozenset({'failed', 'dead'})",
        "CODES = {'succeeded': 0, 'failed': 3}",
        "new = {'status': 'pending', 'attempts': 0}",
        "query = \"SELECT 1 FROM jobs WHERE status IN ('running', 'x')\"",
    ],
)
def test_a_literal_is_found(code: str) -> None:
    assert faults(code)


@pytest.mark.parametrize(
    "code",
    [
        "log.info('running')",
        "job.status == RUNNING",
        "figure = ('pending', 12, 'running')",
        "reply.kind == 'done'",
        "answer['failed']",
    ],
)
def test_a_word_of_another_vocabulary_is_not_taken_for_a_state(code: str) -> None:
    assert not faults(code)
