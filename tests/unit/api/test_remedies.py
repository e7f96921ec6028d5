"""A refusal whose text names a call of the API has that call as data, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams import api

MODULES = [
    path for path in sorted(Path(api.__file__).parent.rglob("*.py")) if "cli" not in path.stem
]
CALL = re.compile(r"\b(GET|PUT|POST|DELETE|PATCH) /v1|\s/v1/")
REMEDIES = {"get", "put", "Remedy"}


def named(path: Path) -> str:
    return str(path.relative_to(Path(api.__file__).parent))


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    told = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_no_text_names_a_call_but_by_a_remedy(path: Path) -> None:
    assert [text for text in texts(ast.parse(path.read_text())) if CALL.search(text)] == []


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def assigned(scope: ast.AST, remedies: set[str]) -> tuple[set[str], set[str]]:
    """The names of remedies in a scope, and the names of texts that name one."""
    made, told = set(remedies), set[str]()
    for node in ast.walk(scope):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") in REMEDIES:
            made.add(name)
        elif names_in(value) & (made | told):
            told.add(name)
    return made, told


def refusals(tree: ast.Module) -> Iterator[tuple[ast.Call, set[str]]]:
    """Each refusal whose text names a remedy, with the remedies of its function."""
    outside: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Assign)]
    of_module, _ = assigned(ast.Module(outside, []), set())
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        made, told = assigned(function, of_module)
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "Refusal":
                continue
            if names_in(ast.Tuple(node.args)) & (made | told):
                yield node, made


def test_what_names_a_remedy_has_it() -> None:
    found = [(p, *r) for p in MODULES for r in refusals(ast.parse(p.read_text()))]
    assert len(found) >= 8
    for path, refusal, made in found:
        given = [names_in(word.value) for word in refusal.keywords if word.arg == "remedy"]
        assert any(names & made for names in given), f"{named(path)}:{refusal.lineno}: add remedy="
