"""The calls of the API as their declarations and their code tell them."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aiohttp import web
from pydantic import BaseModel

from streams.api.rows.paging import Listing
from streams.api.serving.call import Call, call_of
from streams.api.serving.routes import routes
from streams.errors import TidegateError
from support.api_document.refusals import NAMED_LATER
from support.api_document.source import Function, function, reachable

OF_AUTHENTICATION = frozenset({"is_open", "ticket_holder"})


@dataclass(frozen=True)
class Route:
    """A call with its handler; `listing` is that of a list that needs no code of its own."""

    call: Call
    handler: Any
    listing: Listing | None

    @cached_property
    def functions(self) -> list[Function]:
        """The handler and all functions that it leads to."""
        return reachable(self.start, NAMED_LATER | OF_AUTHENTICATION)

    @property
    def start(self) -> Function:
        name = f"{self.handler.__module__}.{self.handler.__qualname__.split('.')[0]}"
        found = function(name)
        if found is None:
            raise TidegateError(f"no code of {name} was found")
        return found

    @property
    def served(self) -> list[Function]:
        """The functions that know HTTP."""
        return [each for each in self.functions if _knows_http(each.module)]

    @property
    def resource(self) -> str:
        """The folder of the call's resource."""
        where = self.handler.__module__ if self.listing is None else self.listing.item.__module__
        return str(where).split(".")[2]

    @property
    def about(self) -> str:
        """What the call does: the handler's docstring, or what its list is."""
        if self.listing is None:
            return inspect.cleandoc(self.handler.__doc__ or "")
        what = self.listing.name.replace("_", " ")
        of = "a tenant's" if "{tenant_id}" in self.call.path else "all"
        return f"List {of} {what}, newest first."

    @cached_property
    def body(self) -> type[BaseModel] | None:
        """The model that validates the body."""
        for of, read in _calls_of("read_body", self.functions):
            model = _value(of, read.args[1])
            if isinstance(model, type) and issubclass(model, BaseModel):
                return model
        return self.call.body

    @property
    def filters(self) -> dict[str, tuple[str, ...]] | None:
        """The filters of a list with the values that each allows; None if this is no list."""
        if self.listing is not None:
            found = self.listing.filters
        else:
            asked = next(_calls_of("page_query", self.functions), None)
            if asked is None:
                return None
            found = _value(asked[0], asked[1].args[1])
        return {n: tuple(v) for n, v in found.items() if f"{{{n}}}" not in self.call.path}


def declared() -> Iterator[Route]:
    """Every call of the API that has a declaration and is below no page."""
    for each in routes():
        if not isinstance(each, web.RouteDef):
            continue
        call, handler = call_of(each.handler), inspect.unwrap(each.handler)
        if call is None or not call.path.startswith(("/v1/", "/s", "/c", "/m", "/as")):
            continue
        inner = inspect.getclosurevars(handler).nonlocals.get("listing")
        yield Route(call, handler, inner if isinstance(inner, Listing) else None)


def _calls_of(name: str, functions: list[Function]) -> Iterator[tuple[Function, ast.Call]]:
    for of in functions:
        for node in of.nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield of, node


def _value(of: Function, expression: ast.expr) -> Any:
    """The value of a name in a module, or of a literal."""
    names = vars(importlib.import_module(of.module))
    return eval(ast.unparse(expression), names)


def _knows_http(module: str) -> bool:
    return module.startswith("streams.api.serving.") or module.rsplit(".", maxsplit=1)[
        -1
    ].startswith("http")
