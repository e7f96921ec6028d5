"""What a call may be refused with: each problem that a function which it leads to raises."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from streams.errors import TidegateError
from support.api_document.source import Function, full_name

REFUSAL = "streams.api.refusal.Refusal"
PROBLEM = "streams.http.problem.problem"
UNKNOWN = "streams.api.refusal.unknown"
OF_REGISTRY = "streams.api.schemas.registry.RegistryError"
ANY = "*"
"""In place of a problem's name: the reason for which a stage refused a command."""

NAMED_LATER = frozenset({"unknown", "answer_to", "refused"})
"""Functions that refuse for others: what they are called with is the problem."""

Problems = dict[int, set[str]]


def problems_of(functions: list[Function]) -> Problems:
    """The names of problems by status; none of a registry's errors, which have codes."""
    found: Problems = defaultdict(set)
    for each in functions:
        for status, names in _raised(each):
            found[status] |= names
    return found


def _raised(of: Function) -> Iterator[tuple[int, set[str]]]:
    for node in of.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = full_name(of.module, node.func)
        if name in (REFUSAL, PROBLEM) and isinstance(node.args[0], ast.Constant):
            yield _status(node.args[0]), _names(node.args[1])
        elif name == UNKNOWN:
            yield 404, {f"{each.replace(' ', '-')}-unknown" for each in _names(node.args[0])}
        elif name == OF_REGISTRY:
            yield int(str(_constant(node.args[0]))[:3]), set()


def _status(expression: ast.expr) -> int:
    found = _constant(expression)
    if not isinstance(found, int):
        raise TidegateError(f"a refusal's status is no number: {ast.unparse(expression)}")
    return found


def _names(expression: ast.expr) -> set[str]:
    match expression:
        case ast.Constant(value=str(name)):
            return {name}
        case ast.IfExp(body=one, orelse=other):
            return _names(one) | _names(other)
    return {ANY}


def _constant(expression: ast.expr) -> object:
    return expression.value if isinstance(expression, ast.Constant) else None
