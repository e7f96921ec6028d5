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

from streams.api.rows.paging import Listing, PagedList
from streams.api.serving.call import Call, call_of
from streams.api.serving.routes import routes
from streams.errors import TidegateError
from support.api_document.refusals import NAMED_LATER
from support.api_document.source import Function, function, module, reachable

OF_AUTHENTICATION = frozenset({"is_open", "ticket_holder"})


@dataclass(frozen=True)
class Route:
    """A call with its handler; `listing` is that of a list."""

    call: Call
    handler: Any
    listing: Listing | PagedList | None

    @cached_property
    def functions(self) -> list[Function]:
        """The handler and all functions that it leads to."""
        starts = [self.start, *(() if self.known is None else (self.known,))]
        without = NAMED_LATER | OF_AUTHENTICATION
        return [each for start in starts for each in reachable(start, without)]

    @property
    def known(self) -> Function | None:
        """What refuses a list whose path names what is not there."""
        return None if self.listing is None else code_of(_inner(self.handler, "known"))

    @property
    def shows(self) -> Any:
        """What makes a list's page, or its items; the handler of any other call."""
        match self.listing:
            case Listing(item=shows) | PagedList(read=shows):
                return shows
        return self.handler

    @property
    def start(self) -> Function:
        found = code_of(self.handler)
        if found is None:
            raise TidegateError(f"no code of {self.handler} was found")
        return found

    @property
    def served(self) -> list[Function]:
        """The functions that know HTTP."""
        return [each for each in self.functions if _knows_http(each.module)]

    @property
    def resource(self) -> str:
        """The folder of the call's resource."""
        return str(self.shows.__module__).split(".")[2]

    @property
    def about(self) -> str:
        """What the call does: the handler's docstring, or what its list is."""
        if self.listing is None:
            return inspect.cleandoc(self.handler.__doc__ or "")
        what = self.listing.name.replace("_", " ")
        if isinstance(self.listing, PagedList):
            return inspect.cleandoc(self.listing.read.__doc__ or "").replace("Return", "List", 1)
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
    def most(self) -> int | None:
        """The largest limit of a list, where it is another one than that of most lists."""
        asked = next(_calls_of("page_query", self.functions), None)
        given = [] if asked is None else asked[1].args[2:]
        return int(_value(asked[0], given[0])) if asked and given else None

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
        inner = _inner(handler, "listing")
        yield Route(call, handler, inner if isinstance(inner, Listing | PagedList) else None)


def _inner(handler: Any, name: str) -> Any:
    return inspect.getclosurevars(handler).nonlocals.get(name)


def code_of(found: Any) -> Function | None:
    """The code of a function, or of the one that made it; of a lambda, if it is in `LISTING`."""
    name = found.__qualname__.split(".")[0]
    return (
        _of_listing(found.__module__)
        if name == "<lambda>"
        else function(f"{found.__module__}.{name}")
    )


def _of_listing(where: str) -> Function | None:
    """The lambda that makes the items of a module's list, as a function."""
    known = module(where)
    declared = None if known is None else known.constants.get("LISTING")
    made = ast.parse("def item() -> Json: return None").body[0]
    match declared, made:
        case ast.Call(args=[_, _, ast.Lambda() as item, *_]), ast.FunctionDef(body=[ast.Return()]):
            made.body = [ast.Return(item.body)]
            return Function(where, "item", made)
    return None


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
