"""How the operator's commands are made: they ask the API, and show tables or JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import typer

from streams.cli import tables
from streams.cli.api_client import (
    ANSWERED_WITHIN_SECONDS,
    CallFailed,
    NotReached,
    TokenRefused,
    admin_token,
    api_url,
    call,
    download,
    look,
    remedy,
    token_origin,
)
from streams.cli.calls_as_commands import told_in_commands, words_of
from streams.cli.ends import tell
from streams.cli.event_stream import EventStream
from streams.cli.options import AS_JSON, CONNECTION, arguments, own_options, with_options
from streams.cli.terminal_text import harmless_json
from streams.errors import TidegateError, exit_code
from streams.settings import Settings, load_settings

Answer = dict[str, Any]

_OF_FIRST_PAGE = frozenset({"matched", "matched_is_bound", "dry_run", "next_cursor"})
"""The fields of a bulk call's answer that are not summed up."""
_OF_COMMAND = frozenset({"tenant_id", "id", "command_id", "answered"})
"""The fields of an answer that only names a command."""


@dataclass(frozen=True)
class Seen:
    """A thing before a command changes some of its settings; `found` is None if there is none."""

    found: Answer | None
    etag: str | None

    @property
    def condition(self) -> dict[str, str]:
        """The headers under which nobody else's change in between is lost."""
        if self.found is None:
            return {"If-None-Match": "*"}
        return {} if self.etag is None else {"If-Match": self.etag}


@dataclass(frozen=True)
class Api:
    """The operator's API; its address and token are looked up at the first call."""

    given_url: str | None
    token_file: Path | None
    data_dir: Path | None

    def get(self, path: str, **query: str | int | None) -> Answer:
        given = {name: str(value) for name, value in query.items() if value is not None}
        return call(self.url, self._token, "GET", path, query=given)

    def stream(self, path: str) -> EventStream:
        return EventStream(self.url, self._token, path)

    def download(self, path: str) -> bytes:
        return download(self.url, self._token, path)

    def post(
        self,
        path: str,
        body: Answer,
        key: str | None = None,
        within: float = ANSWERED_WITHIN_SECONDS,
    ) -> Answer:
        return call(
            self.url, self._token, "POST", path, body=body, idempotency_key=key, within=within
        )

    def look(self, path: str) -> tuple[Answer, str | None]:
        return look(self.url, self._token, path)

    def put(self, path: str, body: Answer, seen: Seen | None = None) -> Answer:
        headers = None if seen is None else seen.condition
        return call(self.url, self._token, "PUT", path, body=body, headers=headers)

    def delete(self, path: str, body: Answer | None = None) -> Answer:
        return call(self.url, self._token, "DELETE", path, body=body)

    def command(self, *words: str) -> str:
        """`tidegate` with these words and the connection's options as they were given.

        It is quoted for a shell and works as printed in the same directory.
        """
        options = {
            "--url": self.given_url,
            "--token-file": self.token_file,
            "--data-dir": self.data_dir,
        }
        given = [(flag, str(value)) for flag, value in options.items() if value is not None]
        return shlex.join(["tidegate", *words, *chain.from_iterable(given)])

    def command_of(self, remedy: Answer) -> str | None:
        """The command that makes the call which an answer names as its remedy, if there is one."""
        words = words_of(remedy)
        return None if words is None else self.command(*words)

    def remedy(self) -> str:
        return remedy(self._settings, self.given_url)

    def token_origin(self) -> str:
        return token_origin(self._settings, self.token_file)

    @cached_property
    def _settings(self) -> Settings:
        return load_settings(data_dir=self.data_dir)

    @cached_property
    def url(self) -> str:
        return api_url(self._settings, self.given_url, self.data_dir)

    @cached_property
    def _token(self) -> str:
        return admin_token(self._settings, self.token_file)


Ask = Callable[..., Any]

_DELIVERY = ("delivery stage", "`tidegate delivery`")
_DISPATCHER = ("dispatcher", "the dispatcher (or `tidegate pipeline`)")


def program(act: Callable[..., int]) -> Callable[..., None]:
    """The command of a function that prints while it runs and returns its exit code.

    The function takes an `Api` and its own options; the command adds those of the connection.
    """

    def run(**given: Any) -> None:
        api = _api(given)
        with _errors_shown(api):
            code = act(api, **arguments(act, given))
        raise typer.Exit(code)

    run.__doc__ = _unwrapped(act.__doc__)
    return with_options(run, (*own_options(act), *CONNECTION))


def command(
    group: typer.Typer, name: str, table: tables.Show | None = None
) -> Callable[[Ask], Ask]:
    """Register a function of an `Api` and its own options as a command.

    The command also gets the options of the connection, and `--json`. It shows the function's
    answer as `table`. Without a table, the function returns bytes, and the command writes them.
    """

    def register(ask: Ask) -> Ask:
        def run(**given: Any) -> None:
            api = _api(given)
            as_json = given.pop(AS_JSON.name, False)
            with _errors_shown(api):
                found = ask(api, **arguments(ask, given))
                if as_json or not _is_bare(found):
                    _write(found, as_json, table)
                _require_answered(api, found)

        run.__doc__ = _unwrapped(ask.__doc__)
        output = () if table is None else (AS_JSON,)
        group.command(name)(with_options(run, (*own_options(ask), *CONNECTION, *output)))
        return ask

    return register


def _unwrapped(doc: str | None) -> str:
    """A docstring with each paragraph on one line: the terminal wraps it at its own width."""
    return "\n\n".join(" ".join(text.split()) for text in cleandoc(doc or "").split("\n\n"))


def _api(given: dict[str, Any]) -> Api:
    """The API that the options of the connection name; they are taken out of `given`."""
    return Api(*(given.pop(option.name) for option in CONNECTION))


@contextmanager
def _errors_shown(api: Api) -> Iterator[None]:
    """End the command at an error with 1, or with 2 for a wrong setting."""
    try:
        yield
    except TokenRefused as error:
        tell(f"{error} from {api.token_origin()}: name another with --token-file")
        raise typer.Exit(1) from None
    except NotReached as error:
        tell(f"{error}: {api.remedy()}")
        raise typer.Exit(1) from None
    except TidegateError as error:
        helps = error.remedy if isinstance(error, CallFailed) else None
        tell(told_in_commands(str(error), helps, api.command))
        raise typer.Exit(exit_code(error)) from None


def page_by_page(api: Api, path: str, body: Answer, done: str) -> Answer:
    """The sum of all pages of a bulk call; standard error shows its progress.

    `done` names the field that counts what a page has done.
    """
    total = api.post(path, body)
    while (cursor := total["next_cursor"]) is not None:
        typer.echo(f"{done} {total[done]} of {tables.number_matched(total)}", err=True)
        found = api.post(path, body | {"cursor": cursor})
        for name in found.keys() - _OF_FIRST_PAGE:
            total[name] += found[name]
        total["next_cursor"] = found["next_cursor"]
    return total


def _is_bare(found: Any) -> bool:
    """Whether an answer only names a command: the stage has decided nothing that could be shown."""
    return (
        isinstance(found, dict) and found.get("answered") is False and found.keys() <= _OF_COMMAND
    )


def _require_answered(api: Api, found: Any) -> None:
    """End a command with 1 whose effect the pipeline has not shown in time.

    Raises:
        CallFailed: it is durable, and nothing has carried it out yet.
    """
    if isinstance(found, dict) and found.get("answered") is False:
        words, stage, process = _carried_out(found)
        raise CallFailed(
            f"the command is written, but no {stage} carried it out within 5 s. It stays valid: "
            f"look again with `{api.command(*words)}`, and if nothing changes, check that "
            f"{process} runs"
        )


def _carried_out(found: Answer) -> tuple[tuple[str, ...], str, str]:
    """The words of the command that shows its subject, the stage that acts, and its process."""
    if "delivery_id" in found:
        return ("deliveries", "show", found["delivery_id"]), *_DELIVERY
    if "endpoint_id" in found:
        words = ("endpoints", "show", found["endpoint_id"], "--tenant", found["tenant_id"])
        return words, *_DELIVERY
    if "once_per" in found:  # an effect, whose job may be forgotten
        of = ("--tenant", found["tenant_id"], "--key", found["key"])
        return ("effects", "list", *of), *_DISPATCHER
    if "cancelled" in found:
        return ("workflows", "show", found["workflow_id"]), *_DISPATCHER
    if "job_id" in found:
        return ("jobs", "show", found["job_id"]), *_DISPATCHER
    return ("audit", "list", "--command", found["command_id"]), *_DISPATCHER


def _write(found: Any, as_json: bool, table: tables.Show | None) -> None:
    if table is None:
        typer.get_binary_stream("stdout").write(found)
    else:
        show(found, as_json, table)


def show(found: Answer, as_json: bool, table: tables.Show) -> int:
    """Print an answer as JSON or as a table; returns the exit code 0."""
    (print_json if as_json else table)(found)
    return 0


def print_json(value: Answer) -> None:
    """Print an object in UTF-8, as JSON is, whatever the terminal's encoding is."""
    typer.echo(harmless_json(orjson.dumps(value, option=orjson.OPT_INDENT_2)).encode())


def tell_how_to_follow(api: Api, job: Answer) -> None:
    """Write the command that watches a job that goes on now to standard error."""
    typer.echo(f"follow it with: {api.command('jobs', 'watch', job['job_id'])}", err=True)


def with_payload_command(api: Api, job: Answer) -> Answer:
    """The job, with the command that shows the body of its event if it has one."""
    if job["payload_ref"] is not None:
        job["payload_command"] = api.command("jobs", "payload", job["job_id"])
    return job


def found_or_none(api: Api, path: str) -> Answer | None:
    """A tenant, source, endpoint or event as GET shows it, or None where there is none."""
    return seen(api, path).found


def seen(api: Api, path: str) -> Seen:
    """What GET shows now, for a command that changes some of it."""
    try:
        return Seen(*api.look(path))
    except CallFailed as error:
        kinds = ("tenant", "source", "endpoint", "event")
        if error.name in [f"{kind}-unknown" for kind in kinds]:
            return Seen(None, None)
        raise


def require_tenant(api: Api, tenant: str) -> None:
    """Check that there is a tenant before a command asks for more.

    Raises:
        CallFailed: there is none.
    """
    if found_or_none(api, f"/v1/tenants/{part(tenant)}") is None:
        remedy = f"create it with `{api.command('tenants', 'set', tenant)}`"
        raise CallFailed(f"there is no tenant {tenant!r}: {remedy}")


def part(id_: str) -> str:
    return quote(id_, safe="")
