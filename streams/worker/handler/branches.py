"""The branch of a handler that the present task is in. Each branch numbers its calls by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from streams.serde.step_ids import inside_path

_PATH: ContextVar[str] = ContextVar("branch", default="")


def current_branch() -> str:
    """The path of the present branch; "" for the handler itself. A new task is in its maker's."""
    return _PATH.get()


@contextmanager
def in_branch(path: str) -> Iterator[None]:
    """Be in the branch with this path."""
    token = _PATH.set(path)
    try:
        yield
    finally:
        _PATH.reset(token)


def inside(id_: str) -> AbstractContextManager[None]:
    """Be in the branch of the function that a step or effect with this id calls.

    A later run that has its result does not call the function, so the calls of the function must
    not shift the numbers of the handler's own.
    """
    return in_branch(inside_path(id_))
