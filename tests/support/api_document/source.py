"""The product's source: which function a name in it means, and which functions one leads to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("streams", "ingress")

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Function:
    """A function or method; `owner` is the class of a method."""

    module: str
    name: str
    node: Def
    owner: str | None = None

    @property
    def types(self) -> dict[str, str]:
        """The annotations of its parameters."""
        given = self.node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        return {each.arg: ast.unparse(each.annotation) for each in every if each.annotation}

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All that stands in it."""
        return tuple(ast.walk(self.node))

    @property
    def returns(self) -> str:
        return "" if self.node.returns is None else ast.unparse(self.node.returns)


@dataclass
class Module:
    """What stands in a module; `names` is what each imported name means, in full.

    `whole` are modules of which it imports everything.
    """

    names: dict[str, str] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    methods: dict[tuple[str, str], Function] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)


@cache
def module(name: str) -> Module | None:
    """The module of this full name, None if it is not ours."""
    if name.split(".", maxsplit=1)[0] not in _PACKAGES:
        return None
    base = ROOT / name.replace(".", "/")
    found = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
    return None if found is None else _read(name, ast.parse(found.read_text()))


def _read(name: str, tree: ast.Module) -> Module:
    made = Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.names[0].name == "*":
                made.whole.append(node.module)
            for alias in node.names:
                made.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                made.functions[node.name] = Function(name, node.name, node)
            case ast.ClassDef():
                made.classes[node.name] = node
                for inner in node.body:
                    if isinstance(inner, Def):
                        method = Function(name, inner.name, inner, node.name)
                        made.methods[node.name, inner.name] = method
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                made.constants[target] = value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                made.constants[target] = value
            case _:
                pass
    return made


def full_name(where: str, expression: ast.expr) -> str | None:
    """What a name or a dotted name means in a module, in full."""
    known = module(where)
    match expression:
        case ast.Name(id=name) if known is not None:
            own = known.functions.keys() | known.classes.keys() | known.constants.keys()
            return f"{where}.{name}" if name in own else known.names.get(name)
        case ast.Attribute(value=value, attr=attr):
            base = full_name(where, value)
            return None if base is None else f"{base}.{attr}"
    return None


def function(name: str) -> Function | None:
    """The function of this full name, wherever it is imported from."""
    where, _, last = name.rpartition(".")
    known = module(where)
    if known is None:
        return None
    if last in known.functions:
        return known.functions[last]
    return function(known.names[last]) if last in known.names else None


def class_of(name: str) -> tuple[str, ast.ClassDef] | None:
    """The module and the definition of the class of this full name."""
    where, _, last = name.rpartition(".")
    known = module(where)
    if known is None:
        return None
    if last in known.classes:
        return where, known.classes[last]
    if last in known.names:
        return class_of(known.names[last])
    return next((found for each in known.whole if (found := class_of(f"{each}.{last}"))), None)


def constant(name: str) -> ast.expr | None:
    """What the constant of this full name is given."""
    where, _, last = name.rpartition(".")
    known = module(where)
    if known is None:
        return None
    if last in known.constants:
        return known.constants[last]
    return constant(known.names[last]) if last in known.names else None


def field_of(owner: str, name: str) -> tuple[str, str] | None:
    """The module in which a field of a class is annotated, and its annotation."""
    found = class_of(owner)
    if found is None:
        return None
    for node in found[1].body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name:
            return found[0], ast.unparse(node.annotation)
    bases = (full_name(found[0], base) for base in found[1].bases)
    return next((f for base in bases if base and (f := field_of(base, name))), None)


def method(class_name: str, name: str) -> Function | None:
    """The method of a class, or of one that it extends."""
    found = class_of(class_name)
    if found is None:
        return None
    where, node = found
    known = module(where)
    if known is not None and (node.name, name) in known.methods:
        return known.methods[node.name, name]
    bases = (full_name(where, base) for base in node.bases)
    return next((m for base in bases if base and (m := method(base, name))), None)


def reachable(start: Function, without: frozenset[str]) -> list[Function]:
    """A function and all that it leads to, but for those of these names."""
    seen, todo = {start: None}, [start]
    while todo:
        found = [f for f in _used(todo.pop(0)) if f.name not in without and f not in seen]
        seen.update(dict.fromkeys(found))
        todo += found
    return list(seen)


def target(of: Function, expression: ast.expr) -> Function | None:
    """The function or method that an expression in another function is."""
    name = full_name(of.module, expression)
    found = None if name is None else function(name)
    if found is None and isinstance(expression, ast.Attribute):
        owner = type_of(of, expression.value)
        return None if owner is None else method(owner, expression.attr)
    return found


def type_of(of: Function, value: ast.expr) -> str | None:
    """The full name of the class of a value, as far as annotations tell it."""
    match value:
        case ast.Await(value=inner):
            return type_of(of, inner)
        case ast.Name(id="self") if of.owner is not None:
            return f"{of.module}.{of.owner}"
        case ast.Name(id=name) if name in of.types:
            return _class_named(of.module, of.types[name])
        case ast.Name(id=name):
            return next((t for v in assigned(of, name) if (t := type_of(of, v))), None)
        case ast.Attribute(value=owner, attr=attr) if (known := type_of(of, owner)) is not None:
            declared = field_of(known, attr)
            return None if declared is None else _class_named(*declared)
        case ast.Call(func=func, args=args):
            called = target(of, func)
            if called is not None and called.name == "read_body":
                return full_name(of.module, args[1])
            if called is not None:
                return _class_named(called.module, called.returns)
            name_ = full_name(of.module, func)
            return name_ if name_ and class_of(name_) else None
    return None


def assigned(of: Function, name: str) -> Iterator[ast.expr]:
    """The values that a function gives to a name; of several at once, the one in its place."""
    for node in of.nodes:
        if not isinstance(node, ast.Assign):
            continue
        match node.targets[0], node.value:
            case ast.Name(id=found), value if found == name:
                yield value
            case ast.Tuple(elts=names), ast.Tuple(elts=values):
                pairs = zip(names, values, strict=False)
                yield from (v for n, v in pairs if isinstance(n, ast.Name) and n.id == name)
            case _:
                pass


def unpacked(of: Function, name: str) -> Iterator[tuple[ast.Call, int]]:
    """The calls of whose several values a function gives one to a name, and its place."""
    for node in of.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
            continue
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call):
            for place, each in enumerate(node.targets[0].elts):
                if isinstance(each, ast.Name) and each.id == name:
                    yield value, place


def _class_named(where: str, annotation: str) -> str | None:
    names = [part.strip() for part in annotation.split("|")]
    if not names[0].isidentifier():
        return None
    found = full_name(where, ast.Name(names[0]))
    return found if found and class_of(found) else None


@cache
def _used(of: Function) -> tuple[Function, ...]:
    named = (node for node in of.nodes if isinstance(node, ast.Name | ast.Attribute))
    found = (target(of, node) for node in named)
    return tuple(dict.fromkeys(each for each in found if each is not None))
