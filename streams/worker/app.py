"""What an application declares: its job types, their retries, and the tools they use."""

from __future__ import annotations

import importlib
import inspect
import math
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from streams.errors import ConfigError
from streams.serde.records import Handler
from streams.worker.handler.effect_lint import check_effects

if TYPE_CHECKING:
    from streams.worker.handler.context import Context

JobFunction = Callable[["Context"], Awaitable[Any]]
PreflightFunction = Callable[["Context"], Awaitable[bool]]
_Job = TypeVar("_Job", bound=JobFunction)
_Preflight = TypeVar("_Preflight", bound=PreflightFunction)

_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
TOOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
"""What a tool may be called; no slash, which parts tool and key in the ledger."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after which waits a job is tried.

    `max_attempts` counts the first run (1 = never again). `backoff` are the seconds before
    attempts 2, 3, ...; the last repeats.

    Raises:
        ConfigError: names the wrong value.
    """

    max_attempts: int = 5
    backoff: tuple[float, ...] = (10, 30, 120, 600)

    def __post_init__(self) -> None:
        if not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ConfigError(f"Retry(max_attempts={self.max_attempts!r}): give a whole number > 0")
        object.__setattr__(self, "backoff", tuple(self.backoff))
        if not self.backoff or not all(map(_is_wait, self.backoff)):
            raise ConfigError(
                f"Retry(backoff={self.backoff!r}): give one or more finite seconds, none negative"
            )


@dataclass(frozen=True, slots=True)
class JobType:
    """One declared job type; `scopes` None allows every tool."""

    name: str
    function: JobFunction
    retry: Retry
    timeout: float
    scopes: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Tool:
    """What a tool promises: for how many seconds it knows a key again (0: it honours none).

    An error of `nothing_done` says that its call did nothing.
    """

    name: str
    key_lifetime: float = 0.0
    nothing_done: tuple[type[Exception], ...] = ()


class App:
    """An application: `@app.job` declares a handler, `app.tool` what a tool promises."""

    def __init__(self, name: str) -> None:
        if not name:
            raise ConfigError('App(""): give the application a name')
        self.name = name
        self.jobs: dict[str, JobType] = {}
        self.preflights: dict[str, PreflightFunction] = {}
        self.tools: dict[str, Tool] = {}

    def job(
        self,
        type: str,
        *,
        retry: Retry | None = None,
        timeout: float = 300,
        scopes: Iterable[str] | None = None,
    ) -> Callable[[_Job], _Job]:
        """Declare the handler of a job type, an `async def` of one `Context`.

        It may run more than once: whatever must not belongs in `ctx.effect`. Its return value
        is the job's result and must be JSON. `timeout` is in seconds and covers one attempt,
        `scopes` are the tools it may use (None: any).

        Raises:
            ConfigError: a duplicate type, a bad name, timeout or scope, not an `async def`, or one
                that passes a function to `ctx.effect` which takes no `idempotency_key`.
        """
        _check(_TYPE, type, "job type")
        if type in self.jobs:
            raise ConfigError(f"job type {type!r} is declared twice in app {self.name!r}")
        if not _is_wait(timeout) or timeout == 0:
            raise ConfigError(f"job type {type!r}: timeout={timeout!r} is not a time in seconds")
        allowed = None if scopes is None else _scopes(type, scopes)

        def declare(function: _Job) -> _Job:
            _check_async(function, f"job type {type!r}")
            check_effects(function, f"job type {type!r}")
            self.jobs[type] = JobType(type, function, retry or Retry(), float(timeout), allowed)
            return function

        return declare

    def preflight(self, type: str) -> Callable[[_Preflight], _Preflight]:
        """Declare the check that precedes every run of a type: False cancels the job.

        Raises:
            ConfigError: the type is not declared yet, has one already, or not an `async def`.
        """
        if type not in self.jobs:
            raise ConfigError(
                f"preflight of {type!r}: no such job type; declare it above with @app.job({type!r})"
            )
        if type in self.preflights:
            raise ConfigError(f"job type {type!r} has two preflights; keep one")

        def declare(function: _Preflight) -> _Preflight:
            _check_async(function, f"preflight of {type!r}")
            self.preflights[type] = function
            return function

        return declare

    def tool(
        self,
        name: str,
        *,
        key_lifetime: float | None = None,
        nothing_done: tuple[type[Exception], ...] = (),
    ) -> None:
        """Declare what a tool promises.

        It honours idempotency keys for `key_lifetime` seconds: within them an effect whose
        outcome is unknown is repeated under its key; without it nothing is ever repeated, a
        person decides. Its errors of the types `nothing_done` mean that nothing was done, like a
        `TransientError` of its function: name only those that are raised before anything is sent.

        Raises:
            ConfigError: a bad name or lifetime, no types of errors, or a tool declared twice.
        """
        _check(TOOL_NAME, name, "tool")
        if name in self.tools:
            raise ConfigError(f"tool {name!r} is declared twice in app {self.name!r}")
        if key_lifetime is not None and (not _is_wait(key_lifetime) or key_lifetime == 0):
            raise ConfigError(f"tool {name!r}: key_lifetime={key_lifetime!r} is no time in seconds")
        errors = _error_types(name, nothing_done)
        self.tools[name] = Tool(name, float(key_lifetime or 0), errors)

    def check_effects(self) -> None:
        """Look at the handlers again, once their modules define all that they call.

        Raises:
            ConfigError: as `job` does.
        """
        for job in self.jobs.values():
            check_effects(job.function, f"job type {job.name!r}")

    def handlers(self) -> tuple[Handler, ...]:
        """The job types as a worker announces them."""
        return tuple(
            Handler(job.name, job.retry.max_attempts, job.retry.backoff, job.timeout)
            for job in self.jobs.values()
        )


def load_app(target: str) -> App:
    """The application that `module:attribute` names; the working directory is importable.

    Raises:
        ConfigError: a malformed name, no such module or attribute, it is not an `App`, or its
            module raises: with the lines of the application that led there.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"--app {target!r}: write module:attribute, as in shop.jobs:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(_missing_module(target, module_name, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(_broken_module(target, module_name, error)) from error
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigError(f"--app {target!r}: module {module_name} has no {attribute!r}")
    if not isinstance(found, App):
        kind = type(found).__name__
        raise ConfigError(f"--app {target!r}: {attribute} is a {kind}, not a streams.App")
    found.check_effects()
    return found


def _missing_module(target: str, module: str, error: ModuleNotFoundError) -> str:
    missing = error.name or ""
    if f"{module}.".startswith(f"{missing}."):
        return f"--app {target!r}: no module {missing!r} in {Path.cwd()} or among the installed"
    return (
        f"--app {target!r}: {module} imports {missing!r}, which is not installed"
        f"\n{_own_lines(error)}".rstrip()
    )


def _broken_module(target: str, module: str, error: BaseException) -> str:
    # A syntax error has its line and a caret before its message.
    *place, told = traceback.format_exception_only(error)
    lines = "".join((_own_lines(error), *place)).rstrip()
    return f"--app {target!r}: {module} cannot be imported: {told.strip()}\n{lines}"


def _own_lines(error: BaseException) -> str:
    """The traceback's frames in the application: not ours, the importer's, or a library's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ")
        and not _below(frame, Path(__file__).parents[1], Path(importlib.__file__).parent)
    ]
    own = [frame for frame in frames if not _below(frame, Path(sys.prefix), Path(sys.base_prefix))]
    # An installed application lies among the libraries.
    return "".join(traceback.format_list(own or frames))


def _below(frame: traceback.FrameSummary, *folders: Path) -> bool:
    return any(Path(frame.filename).is_relative_to(folder) for folder in folders)


def _scopes(type: str, scopes: Iterable[str]) -> frozenset[str]:
    if isinstance(scopes, str):
        raise ConfigError(f"job type {type!r}: scopes is one string; write {{{scopes!r}}}")
    allowed = frozenset(scopes)
    for scope in allowed:
        _check(TOOL_NAME, scope, f"job type {type!r}: scope")
    return allowed


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


def _check(pattern: re.Pattern[str], name: object, what: str) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise ConfigError(
            f"{what} {name!r}: use 1 to 128 letters, digits, '_', '.', ':' or '-', "
            "the first a letter or digit"
        )


def _check_async(function: object, what: str) -> None:
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"{what}: {function!r} is not an `async def`; make it one")


def _is_wait(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
