"""Evaluates a JMESPath at bounded cost.

A short expression can make a huge value out of a small document: each `[@, @] |` doubles it. So
every step and everything that the expression makes is counted, values as often as they occur.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.functions import Functions, signature
from jmespath.visitor import TreeInterpreter

from streams.errors import MappingFailed

MOST_DOCUMENT_BYTES = 1024 * 1024
MOST_RESULT_BYTES = 1024 * 1024
_BUDGET = 8 * 1024 * 1024
"""The limit of characters and values that an expression makes; each step costs as much as 32."""
_STEP = 32
_MAKES = frozenset(
    {
        "function_expression",
        "flatten",
        "projection",
        "filter_projection",
        "value_projection",
        "multi_select_list",
        "multi_select_dict",
        "slice",
    }
)
"""Kinds of nodes whose value is new. All others return a part of a value that is there."""

FUNCTIONS = frozenset(Functions.FUNCTION_TABLE)

_compiled = lru_cache(maxsize=256)(jmespath.compile)
"""One of 1,000 characters, the longest, may take 200 kB."""


def evaluate(expression: str, document: Any) -> Any:
    """The expression's value in a document, itself at most `MOST_RESULT_BYTES` characters.

    Raises:
        MappingFailed: the expression fails there, gives null, or costs too much. The message
            repeats nothing of the document.
    """
    work = _Work()
    try:
        result = _Interpreter(work).visit(_compiled(expression).parsed, document)
        if work.size(result) > MOST_RESULT_BYTES:
            raise MappingFailed("its result is larger than 1 MiB: select less")
    except MappingFailed:
        raise
    except RecursionError:
        raise MappingFailed("the document is nested too deep for it") from None
    except JMESPathTypeError as error:
        given = f"{error.function_name}() does not take a value of type {error.actual_type}"
        raise MappingFailed(f"{given}: test for it first") from None
    except JMESPathError as error:
        raise MappingFailed(f"it cannot be evaluated ({type(error).__name__})") from None
    except Exception as error:  # functions raise anything, such as a comparison of mixed types
        raise MappingFailed(f"it cannot be evaluated ({type(error).__name__})") from None
    if result is None:
        raise MappingFailed("its result is null: the document lacks what it selects")
    return result


class _Work:
    """What one evaluation has cost."""

    def __init__(self) -> None:
        self._left = _BUDGET
        self._sizes: dict[int, int] = {}
        self._kept: list[Any] = []  # an id is that of one value as long as the value lives

    def spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise MappingFailed("it costs too much on this document: select less")

    def size(self, value: Any) -> int:
        """Characters and values in a value, each as often as it occurs."""
        if isinstance(value, str):
            return 1 + len(value)
        if not isinstance(value, list | dict):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            inner = value if isinstance(value, list) else (*value, *value.values())
            known = 1 + sum(map(self.size, inner))
            self._sizes[id(value)] = known
            self._kept.append(value)
        return known


class _Functions(Functions):
    """JMESPath's functions, of which `join` multiplies what it is given."""

    def __init__(self, work: _Work) -> None:
        self._work = work

    @signature({"types": ["string"]}, {"types": ["array-string"]})
    def _func_join(self, separator: str, array: list[str]) -> str:
        self._work.spend(len(separator) * len(array))
        return separator.join(array)


class _Interpreter(TreeInterpreter):
    """Counts each step, and the size of each value that a step makes."""

    def __init__(self, work: _Work) -> None:
        super().__init__(jmespath.Options(custom_functions=_Functions(work)))
        self._work = work

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._work.spend(_STEP)
        value = super().visit(node, *args, **kwargs)
        if node["type"] in _MAKES:
            self._work.spend(self._work.size(value))
        return value
