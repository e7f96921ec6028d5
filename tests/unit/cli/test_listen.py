"""`tidegate listen` is an endpoint while it runs, and tells of each request that it gets."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.conditions import eventually
from support.operator_api import OperatorApi, problem
from typer.testing import CliRunner, Result

from streams.api.endpoints.endpoint_request import EndpointRequest
from streams.cli.main import application
from streams.delivery.message import signing

PATH = "/v1/tenants/demo/endpoints/listen"
BODY = b'{"type": "ticket.\\u001bcreated", "data": {"id": 7}}'


def posted(url: str, secret: str, message_id: str) -> int:
    """The status that answers a message signed under a secret."""
    headers = signing.headers(message_id, int(time.time() * 1000), BODY, [secret.encode()])
    try:
        with urlopen(Request(url, BODY, headers), timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def listening(operator: OperatorApi, act: Callable[[dict[str, Any]], None], *flags: str) -> Result:
    """Run the command, act once it is registered, then press Ctrl-C."""
    operator.on("PUT", PATH, {})
    operator.on("DELETE", PATH, {"removed": True})

    def live() -> None:
        try:
            eventually(lambda: operator.bodies("PUT"), what="the endpoint is set")
            act(operator.bodies("PUT")[0])
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=live)
    thread.start()
    done = CliRunner().invoke(application(["listen"]), ["listen", "--url", operator.url, *flags])
    thread.join()
    return done


def test_it_is_an_endpoint_until_ctrl_c(operator: OperatorApi) -> None:
    done = listening(operator, lambda _: None, "--events", "ticket.*", "--events", "job.*")
    assert done.exit_code == 0, done.output
    (body,) = operator.bodies("PUT")
    settings = EndpointRequest.model_validate(body).settings("listen", 0)
    assert settings.events == ("ticket.*", "job.*")
    assert body["url"].startswith("http://127.0.0.1:")
    assert body["secret"].startswith("whsec_")
    assert [each.method for each in operator.asked[:2]] == ["PUT", "DELETE"]
    assert body["secret"] not in done.output


def page(*ids: str, cursor: str | None = None) -> tuple[int, Any]:
    return 200, {"deliveries": [{"delivery_id": each} for each in ids], "next_cursor": cursor}


@pytest.mark.parametrize(
    ("pages", "told"),
    [
        ((page(), page(), page()), "listen again; it took all that was sent to it"),
        ((page("a"), page("b", "c"), page("d")), "listen again; not delivered: 3 parked, 1 dead. "),
        ((page(), page("b", cursor="x"), page()), "not delivered: 1 parked or more. "),
        ((problem(503, "not-ready"),), "listen again; what it did not take is parked: "),
    ],
)
def test_at_its_end_it_says_what_was_not_delivered_and_how_to_get_it(
    operator: OperatorApi, pages: tuple[tuple[int, Any], ...], told: str
) -> None:
    operator.on("GET", "/v1/deliveries", *pages)
    done = listening(operator, lambda _: None)
    last = done.stderr.splitlines()[-1]
    at = f"--url {operator.url}"
    assert (done.exit_code, told in last) == (0, True), last
    if "all that" not in last:
        assert f"`tidegate deliveries list --tenant demo --endpoint listen {at}` shows" in last
    if "not delivered" in last:
        assert f"`tidegate deliveries recover listen --tenant demo --since 1h {at}`" in last


def test_each_request_is_a_line_and_a_foreign_signature_is_told(operator: OperatorApi) -> None:
    answers: list[int] = []

    def act(endpoint: dict[str, Any]) -> None:
        for secret in (endpoint["secret"], signing.new_secret(), endpoint["secret"]):
            answers.append(posted(endpoint["url"], secret, "evt_1"))

    done = listening(operator, act)
    assert answers == [204, 401, 204]
    first, foreign, again = done.stdout.splitlines()
    assert first.endswith("ticket.\ufffdcreated evt_1, seen once, verified, answered 204")
    assert "NOT VERIFIED: the signature is of none of" in foreign
    assert "seen 3 times, verified" in again
    assert "data" not in done.stdout


def test_the_first_requests_of_each_message_fail(operator: OperatorApi) -> None:
    answers: list[int] = []

    def act(endpoint: dict[str, Any]) -> None:
        for message_id in ("evt_1", "evt_1", "evt_1", "evt_2"):
            answers.append(posted(endpoint["url"], endpoint["secret"], message_id))

    done = listening(operator, act, "--fail", "503", "--times", "2", "--json")
    assert answers == [503, 503, 204, 503]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["message_id"], each["seen"], each["answered"]) for each in told] == [
        ("evt_1", 1, 503),
        ("evt_1", 2, 503),
        ("evt_1", 3, 204),
        ("evt_2", 1, 503),
    ]
    assert told[0]["verified"] is True
    assert told[0]["body"] == BODY.decode()


def test_a_delay_and_the_body_are_shown(operator: OperatorApi) -> None:
    took: list[float] = []

    def act(endpoint: dict[str, Any]) -> None:
        began = time.monotonic()
        posted(endpoint["url"], endpoint["secret"], "evt_1")
        took.append(time.monotonic() - began)

    done = listening(operator, act, "--delay", "200ms", "-v")
    assert took[0] >= 0.2
    assert '"data": {"id": 7}' in done.stdout


def test_an_endpoint_that_cannot_be_removed_is_named(operator: OperatorApi) -> None:
    def act(_: dict[str, Any]) -> None:
        operator.on("DELETE", PATH, problem(503, "not-ready"))

    done = listening(operator, act)
    assert done.exit_code == 1
    assert f"tidegate endpoints remove listen --tenant demo --url {operator.url}" in done.stderr


def test_a_taken_port_and_a_lone_times_are_refused(operator: OperatorApi) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(
            application(["listen"]), ["listen", "--port", port, "--url", operator.url]
        )
    assert (done.exit_code, f"cannot listen on 127.0.0.1:{port}" in done.stderr) == (2, True)
    done = CliRunner().invoke(application(["listen"]), ["listen", "--times", "2"])
    assert (done.exit_code, operator.asked) == (2, [])
