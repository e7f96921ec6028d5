"""`tidegate listen`: a receiver on this machine that is an endpoint while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import orjson
import typer

from streams.cli.api_client import CallFailed
from streams.cli.cells import plain
from streams.cli.operator_command import Answer, Api, part, program
from streams.cli.options import JsonLines
from streams.cli.quantities import duration
from streams.cli.receiver import Conduct, Received, Receiver
from streams.cli.terminal_text import harmless_json
from streams.delivery.message.signing import new_secret
from streams.probe_routes import served
from streams.process.shutdown import ProcessEnd
from streams.serde.delivery_states import DEAD, PARKED, PENDING
from streams.tenants.endpoints import LISTEN

_LOOPBACK = "127.0.0.1"
_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""A developer watches: the retries of a failure come soon."""
_TIMEOUT_SECONDS = 15.0
_MOST_COUNTED = 200
"""As many deliveries as one page lists."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The endpoint to be registered, and the port of its receiver; 0 takes a free one."""

    tenant: str
    events: tuple[str, ...]
    port: int

    @property
    def path(self) -> str:
        return f"/v1/tenants/{part(self.tenant)}/endpoints/{LISTEN}"

    def body(self, port: int, secret: str) -> Answer:
        return {
            "url": f"http://{_LOOPBACK}:{port}/",
            "events": list(self.events),
            "secret": secret,
            "retry": list(_RETRY_SECONDS),
            "timeout_seconds": _TIMEOUT_SECONDS,
            "description": "tidegate listen",
        }


@program
def listen(
    api: Api,
    tenant: Annotated[
        str, typer.Option(help="Whose messages come here.", metavar="TENANT")
    ] = "demo",
    events: Annotated[
        list[str] | None,
        typer.Option(help="Only types like this. (* by default)", metavar="GLOB"),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Listen on this port; 0: any.", metavar="PORT")
    ] = 0,
    fail: Annotated[
        int | None, typer.Option(min=400, max=599, help="Answer this status.", metavar="STATUS")
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --fail: only to the first N requests of a message.", metavar="N"
        ),
    ] = None,
    delay: Annotated[str, typer.Option(help="Answer after this time.", metavar="DURATION")] = "0s",
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the bodies, too.")
    ] = False,
    as_json: JsonLines = False,
) -> int:
    """Receive a tenant's outgoing messages here, and print a line for each request.

    It sets the endpoint `listen` with a secret of its own, verifies each signature, and removes the
    endpoint on Ctrl-C; what was not delivered by then is parked, and it says how much that is. The
    delivery stage must run on this machine and be allowed to reach loopback addresses, as in
    `tidegate dev`.

    Example: tidegate listen --tenant demo --events 'ticket.*' --fail 503 --times 3
    """
    if times is not None and fail is None:
        raise typer.BadParameter("--times goes with --fail")
    wanted = _Wanted(tenant, tuple(events or ("*",)), port)
    conduct = Conduct(fail, times, duration(delay, "--delay"))
    tell = _tell_json if as_json else _tell_with_body if verbose else _tell_line
    asyncio.run(_listen(api, wanted, conduct, tell))
    return 0


async def _listen(
    api: Api, wanted: _Wanted, conduct: Conduct, tell: Callable[[Received], None]
) -> None:
    end, secret = ProcessEnd(), new_secret()
    app = Receiver(secret, conduct, tell).application()
    async with served(app, _LOOPBACK, wanted.port, shutdown_timeout=1) as port:
        await asyncio.to_thread(api.put, wanted.path, wanted.body(port, secret))
        typer.echo(
            f"endpoint {LISTEN} of tenant {wanted.tenant} is http://{_LOOPBACK}:{port}/; "
            "Ctrl-C removes it",
            err=True,
        )
        try:
            await end.wait()
        finally:
            await asyncio.to_thread(_remove, api, wanted)
            typer.echo(await asyncio.to_thread(_farewell, api, wanted), err=True)


def _remove(api: Api, wanted: _Wanted) -> None:
    """Remove the endpoint.

    Raises:
        CallFailed: it stays.
    """
    try:
        api.delete(wanted.path)
    except CallFailed as error:
        again = api.command("endpoints", "remove", LISTEN, "--tenant", wanted.tenant)
        raise CallFailed(f"{error}; the endpoint stays, remove it with: {again}") from error


def _farewell(api: Api, wanted: _Wanted) -> str:
    """What became of the endpoint, how much it did not take, and how to get that after all."""
    of = ("--tenant", wanted.tenant)
    removed = (
        f"endpoint {LISTEN} of tenant {wanted.tenant} is removed, and gets nothing of what happens "
        "until you listen again"
    )
    shown = api.command("deliveries", "list", *of, "--endpoint", LISTEN)
    try:
        left = _left(api, wanted)
    except CallFailed:
        return f"{removed}; what it did not take is parked: `{shown}` shows it"
    if not left:
        return f"{removed}; it took all that was sent to it"
    again = api.command("deliveries", "recover", LISTEN, *of, "--since", "1h")
    return (
        f"{removed}; not delivered: {left}. `{shown}` shows them; to get them after all, listen "
        f"again and type `{again}`"
    )


def _left(api: Api, wanted: _Wanted) -> str:
    """How many of the endpoint's deliveries are parked, or will be in a moment, and are dead."""
    found = {
        status: api.get(
            "/v1/deliveries",
            tenant_id=wanted.tenant,
            endpoint_id=LISTEN,
            status=status,
            limit=_MOST_COUNTED,
        )
        for status in (PENDING, PARKED, DEAD)
    }
    counts = {status: len(page["deliveries"]) for status, page in found.items()}
    more = any(page["next_cursor"] for page in found.values())
    told = {PARKED: counts[PENDING] + counts[PARKED], DEAD: counts[DEAD]}
    left = ", ".join(f"{count} {status}" for status, count in told.items() if count)
    return f"{left} or more" if more else left


def _tell_json(received: Received) -> None:
    typer.echo(harmless_json(orjson.dumps(received.json())).encode())


def _tell_line(received: Received) -> None:
    times = "once" if received.seen == 1 else f"{received.seen} times"
    verified = "verified" if received.problem is None else f"NOT VERIFIED: {received.problem}"
    typer.echo(
        f"{received.at:%H:%M:%S}Z {plain(received.type)} {plain(received.message_id)}, "
        f"seen {times}, {plain(verified)}, answered {received.answered}"
    )


def _tell_with_body(received: Received) -> None:
    _tell_line(received)
    typer.echo(f"  {plain(received.body.decode(errors='replace'))}")
