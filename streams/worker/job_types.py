"""Job types and tools as an application declares them, and what makes a declaration wrong."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streams.errors import ConfigError
from streams.worker.typed.handler_types import HandlerTypes

if TYPE_CHECKING:
    from streams.worker.blocking.context import BlockingContext
    from streams.worker.handler.context import Context

JobFunction = Callable[["Context"], Awaitable[Any]]
Declared = Callable[["Context"], Awaitable[Any]] | Callable[["BlockingContext[Any]"], Any]
"""What an application declares: async, or not (`blocking`)."""
PreflightFunction = Callable[["Context"], Awaitable[bool]]

TOOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
"""The form of a tool's name. It has no slash, which separates tool and key in the ledger."""
KEEP_SECONDS = 90 * 86_400
_LONGEST_KEEP_SECONDS = 36_525 * 86_400


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a job is tried, and how long it waits between attempts.

    `max_attempts` includes the first run (1: the job is not retried). `backoff` has the seconds
    before attempts 2, 3, ...; its last value repeats.

    Raises:
        ConfigError: a value is wrong; the message names it.
    """

    max_attempts: int = 5
    backoff: tuple[float, ...] = (10, 30, 120, 600)

    def __post_init__(self) -> None:
        if not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ConfigError(f"Retry(max_attempts={self.max_attempts!r}): give a whole number > 0")
        waits = tuple(self.backoff) if isinstance(self.backoff, Iterable) else ()
        if not waits or not all(map(_is_wait, waits)):
            raise ConfigError(
                f"Retry(backoff={self.backoff!r}): give one or more finite seconds, none negative"
            )
        object.__setattr__(self, "backoff", waits)


@dataclass(frozen=True, slots=True)
class JobType:
    """One declared job type; if `scopes` is None, it may use every tool.

    Its runs take `weight` slots of their worker.
    """

    name: str
    function: JobFunction
    retry: Retry
    timeout: float
    scopes: frozenset[str] | None
    types: HandlerTypes
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's promises.

    The tool recognises an idempotency key for `key_lifetime` seconds (0: it honours no keys). An
    error of the types `nothing_done` means that the call did nothing. `keep` is how many seconds
    the ledger keeps an effect of the tool that counts beyond its job.
    """

    name: str
    key_lifetime: float = 0.0
    nothing_done: tuple[type[Exception], ...] = ()
    keep: float = KEEP_SECONDS


def tool_of(name: str, key_lifetime: float | None, nothing_done: object, keep: float) -> Tool:
    """A tool as `App.tool` declares it.

    Raises:
        ConfigError: the name, a time or a type of error is wrong.
    """
    check_name(name, "tool")
    if key_lifetime is not None and (not _is_wait(key_lifetime) or key_lifetime == 0):
        raise ConfigError(f"tool {name!r}: key_lifetime={key_lifetime!r} is no time in seconds")
    if not _is_wait(keep) or not 1 <= keep <= _LONGEST_KEEP_SECONDS:
        raise ConfigError(f"tool {name!r}: keep={keep!r} is no time from 1 s to 100 years")
    errors = _error_types(name, nothing_done)
    return Tool(name, float(key_lifetime or 0), errors, float(keep))


def allowed_tools(type: str, scopes: Iterable[str] | None) -> frozenset[str] | None:
    """The tools that jobs of a type may use; None for every tool.

    Raises:
        ConfigError: `scopes` is one string, or has what is no tool's name.
    """
    if scopes is None:
        return None
    if isinstance(scopes, str):
        raise ConfigError(f"job type {type!r}: scopes is one string; write {{{scopes!r}}}")
    allowed = frozenset(scopes)
    for scope in allowed:
        check_name(scope, f"job type {type!r}: scope")
    return allowed


def check_name(name: object, what: str) -> None:
    """Check the name of a job type or tool.

    Raises:
        ConfigError: it says `what` has a wrong name.
    """
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name!r}: use 1 to 128 letters, digits, '_', '.', ':' or '-', "
            "the first a letter or digit"
        )


def check_timeout(type: str, timeout: object) -> None:
    """Check the seconds that one attempt may take.

    Raises:
        ConfigError: they are no time.
    """
    if not _is_wait(timeout) or timeout == 0:
        raise ConfigError(f"job type {type!r}: timeout={timeout!r} is not a time in seconds")


def check_weight(type: str, weight: object) -> int:
    """How many slots of a worker a job takes.

    Raises:
        ConfigError: it is no such number.
    """
    if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
        raise ConfigError(f"job type {type!r}: weight={weight!r}: give a whole number of slots > 0")
    return weight


def check_async(function: object, what: str) -> None:
    """Check what an application gives as a handler or preflight.

    Raises:
        ConfigError: it is not an `async def`.
    """
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{what}: {function!r} is not an `async def`; make it one")


def check_policy(function: Callable[..., object]) -> str:
    """The name of a policy, which is that of its function.

    Raises:
        ConfigError: it is no function of one argument, or has no name.
    """
    name = getattr(function, "__name__", None)
    check_name(name, "policy")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise ConfigError(
            f"policy {name!r}: give a function of one EffectCall ({error})"
        ) from error
    return str(name)


def _error_types(name: str, given: object) -> tuple[type[Exception], ...]:
    types = given if isinstance(given, tuple) else (given,)
    for error in types:
        narrow = isinstance(error, type) and issubclass(error, Exception)
        if not narrow or error in (Exception, OSError, TimeoutError):
            raise ConfigError(
                f"tool {name!r}: nothing_done={error!r}: name types of errors, and only those "
                "that are never raised once something was sent"
            )
    return types


def _is_wait(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
