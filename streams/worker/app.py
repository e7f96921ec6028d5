"""An application: it registers handlers by their job types, tools, and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from streams.errors import ConfigError
from streams.serde.records import DeclaredSchedule, Handler, JobTypes
from streams.worker.blocking.declared import runs_as
from streams.worker.handler.effect_lint import check_effects
from streams.worker.handler.values import is_label
from streams.worker.job_types import (
    KEEP_SECONDS,
    Declared,
    JobType,
    PreflightFunction,
    Retry,
    Tool,
    allowed_tools,
    check_async,
    check_name,
    check_policy,
    check_timeout,
    check_weight,
    tool_of,
)
from streams.worker.schedules import ALL_TENANTS, Declaration, Moment, declaration, declared
from streams.worker.typed.annotations import local_names
from streams.worker.typed.handler_types import HandlerTypes

if TYPE_CHECKING:
    from streams.worker.credentials.provider import Provider
    from streams.worker.middleware.policy import PolicyFunction
    from streams.worker.middleware.stack import Stack

_Job = TypeVar("_Job", bound=Declared)
_Preflight = TypeVar("_Preflight", bound=PreflightFunction)
_Policy = TypeVar("_Policy", bound="PolicyFunction")

_VERSION_CHARS = 128


class App:
    """An application: `@app.job` declares a handler, `app.tool` what a tool promises."""

    def __init__(self, name: str, *, version: str | None = None) -> None:
        """`version` is that of the code: jobs and steps show which one ran and made them."""
        if not name:
            raise ConfigError('App(""): give the application a name')
        if version is not None and not is_label(version, _VERSION_CHARS):
            raise ConfigError(
                f"App(version={version!r}): give a string of 1 to {_VERSION_CHARS} characters"
            )
        self.name = name
        self.version = version
        self.jobs: dict[str, JobType] = {}
        self.preflights: dict[str, PreflightFunction] = {}
        self.policies: dict[str, PolicyFunction] = {}
        self.tools: dict[str, Tool] = {}
        self.providers: dict[str, Provider] = {}
        self.declarations: list[Declaration] = []
        """What `schedule` declares; `schedules` has them by their ids."""

    @cached_property
    def middleware(self) -> Stack:
        """What goes around each run, in order: add, replace and remove (docs/middleware.md)."""
        from streams.worker.middleware.stack import Stack  # `import streams` is light

        return Stack()

    def job(
        self,
        type: str,
        *,
        retry: Retry | None = None,
        timeout: float = 300,
        scopes: Iterable[str] | None = None,
        cpu: bool = False,
        memory_mb: int | None = None,
        weight: int = 1,
    ) -> Callable[[_Job], _Job]:
        """Declare the handler of a job type, an `async def` of one `Context`.

        A plain `def` of a `BlockingContext` runs in a thread. With `cpu`, it runs in a process of
        its own, which is killed when its time is up, and may have `memory_mb` of address space.
        A job takes `weight` of its worker's slots, and waits until they are free.

        The handler may run more than once, so put every action that must not be repeated into
        `ctx.effect`. Its return value is the job's result and must be JSON. `timeout` is in
        seconds and covers one attempt. `scopes` are the tools it may use (None: any). With
        `ctx: Context[T]` the input is checked and is a `T`; a model in the annotation of the
        result has that checked, too (docs/typed-handlers.md).

        Raises:
            ConfigError: the type is a duplicate; a name, timeout, scope or weight is wrong; the
                handler cannot run so, or it passes a function to `ctx.effect` that takes no
                `idempotency_key`; the type of an input or result cannot be one of JSON.
        """
        check_name(type, "job type")
        if type in self.jobs:
            raise ConfigError(f"job type {type!r} is declared twice in app {self.name!r}")
        check_timeout(type, timeout)
        slots = check_weight(type, weight)
        allowed = allowed_tools(type, scopes)

        def declare(function: _Job) -> _Job:
            runs = runs_as(function, f"job type {type!r}", cpu=cpu, memory_mb=memory_mb)
            check_effects(function, f"job type {type!r}")
            types = HandlerTypes(function, f"job type {type!r}", local_names())
            types.read_early()
            self.jobs[type] = JobType(
                type, runs, retry or Retry(), float(timeout), allowed, types, slots
            )
            for each in self.declarations:
                if each.function is function:
                    each.decorates(function, [type])
            return function

        return declare

    def preflight(self, type: str) -> Callable[[_Preflight], _Preflight]:
        """Declare the check before every run of a type; it cancels the job by returning False.

        Raises:
            ConfigError: the type is not declared yet or has a preflight already, or the check is
                not an `async def`.
        """
        if type not in self.jobs:
            raise ConfigError(
                f"preflight of {type!r}: no such job type; declare it above with @app.job({type!r})"
            )
        if type in self.preflights:
            raise ConfigError(f"job type {type!r} has two preflights; keep one")

        def declare(function: _Preflight) -> _Preflight:
            check_async(function, f"preflight of {type!r}")
            self.preflights[type] = function
            return function

        return declare

    def policy(self, function: _Policy) -> _Policy:
        """Declare a policy: it is asked before each effect, with its `EffectCall`.

        It returns None, or `Deny(reason)` or `Approve(reason)` of `streams.middleware`, and may be
        async. Policies are asked in the order of their declarations, up to the first that denies
        the effect. If one raises, the effect does not begin (docs/policies.md).

        Raises:
            ConfigError: it does not take one argument, or its name is taken.
        """
        name = check_policy(function)
        if name in self.policies:
            raise ConfigError(f"policy {name!r} is declared twice in app {self.name!r}")
        self.policies[name] = function
        return function

    def tool(
        self,
        name: str,
        *,
        key_lifetime: float | None = None,
        nothing_done: tuple[type[Exception], ...] = (),
        keep: float = KEEP_SECONDS,
    ) -> None:
        """Declare a tool's promises.

        The tool honours idempotency keys for `key_lifetime` seconds. Within them, an effect of
        unknown outcome is repeated under its key. Without a lifetime nothing is ever repeated: a
        person decides. Errors of the types `nothing_done` mean that nothing was done, like a
        `TransientError` of the effect's function. Name only types that the tool raises before it
        sends anything.

        `keep` is for how many seconds after its end the ledger keeps an effect that counts beyond
        its job (`once_per`), 90 days unless given. It belongs to the tool, because all jobs that
        ask for one effect must agree on it.

        Raises:
            ConfigError: the name, a time or a type of error is wrong, or the tool is declared
                twice.
        """
        made = tool_of(name, key_lifetime, nothing_done, keep)
        if name in self.tools:
            raise ConfigError(f"tool {name!r} is declared twice in app {self.name!r}")
        self.tools[name] = made

    def provider(self, name: str, provider: Provider) -> None:
        """Add a provider of credentials, which the topology then names as `provider: NAME`.

        `streams.worker.credentials.provider.Provider` is its contract. One of the name of a shipped
        provider takes its place.

        Raises:
            ConfigError: the name is wrong, or the application has added one of that name.
        """
        check_name(name, "provider")
        if name in self.providers:
            raise ConfigError(f"provider {name!r} is added twice in app {self.name!r}")
        self.providers[name] = provider

    def schedule(
        self,
        cron: str | None = None,
        *,
        every_seconds: float | None = None,
        at: Moment | None = None,
        tz: str = "UTC",
        id: str | None = None,
        job: str | None = None,
        tenant: str | None = None,
        tenants: str | Iterable[str] = ALL_TENANTS,
        input: object = None,
        missed: str = "latest",
        grace_seconds: float = 60,
        overlap: str = "allow",
        window_seconds: float = 0,
        from_: Moment | None = None,
        until: Moment | None = None,
    ) -> Callable[[_Job], _Job]:
        """Have jobs made by the clock: decorate a handler with it, or name its type with `job`.

        Give one of `cron` (five fields on the wall clock of `tz`), `every_seconds` and `at`. `id`
        is the job type unless given. It holds for each tenant, unless `tenant` or `tenants` name
        some. docs/schedules.md has the meaning of each argument.

        Raises:
            ConfigError: an argument is wrong; the message names it, and what to write instead.
        """
        whom = tenants if tenant is None else tenant
        made = declaration(
            id,
            job,
            whom,
            input,
            at,
            from_,
            until,
            cron=cron,
            every_seconds=every_seconds,
            tz=tz,
            missed=missed,
            grace_seconds=grace_seconds,
            overlap=overlap,
            window_seconds=window_seconds,
        )
        self.declarations.append(made)

        def declare(function: _Job) -> _Job:
            made.decorates(function, [n for n, j in self.jobs.items() if j.function is function])
            return function

        return declare

    def schedules(self) -> tuple[DeclaredSchedule, ...]:
        """The schedules as a worker announces them.

        Raises:
            ConfigError: one belongs to no job type, or two have one id.
        """
        return declared(self.declarations, self.jobs)

    def check_effects(self) -> None:
        """Check the handlers again, after their modules have defined all functions and types.

        Raises:
            ConfigError: as `job` does, and as `schedules` and `announced`.
        """
        for job in self.jobs.values():
            check_effects(job.function, f"job type {job.name!r}")
        self.announced()
        self.schedules()

    def handlers(self) -> tuple[Handler, ...]:
        """The job types as a worker announces them to the dispatcher."""
        return tuple(
            Handler(job.name, job.retry.max_attempts, job.retry.backoff, job.timeout, self.version)
            for job in self.jobs.values()
        )

    def announced(self) -> JobTypes:
        """The job types with their JSON schemas, as a worker announces them to the operator.

        Raises:
            ConfigError: the type of an input or result cannot be read; the schemas are too large.
        """
        from streams.worker.typed.announcement import announced  # `import streams` is light

        return announced(self.name, self.version, self.jobs.values())
