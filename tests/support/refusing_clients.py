"""Client libraries that the environment may lack, as they chain the errors of a connect.

Each is built from its own source, as far as an error's way through it goes, under its own module
and class names: httpx 0.28.1 (`_client.py`, `_transports/default.py`), httpcore 1.0.9
(`_exceptions.py`, `_sync/connection.py`), anyio 4 (`_core/_sockets.py`), stripe 11
(`_http_client.py`) and botocore 1.35 (`httpsession.py`, `endpoint.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def module(name: str, source: str, **names: Any) -> dict[str, Any]:
    """A module's namespace; its functions show `name` as theirs."""
    namespace = {"__name__": name, **names}
    exec(compile(source, f"{name}.py", "exec"), namespace)
    return namespace


HTTPCORE = module(
    "httpcore",
    """
class ConnectError(Exception): ...
class ReadTimeout(Exception): ...

def connect_tcp(connect):
    try:
        return connect()
    except OSError as exc:
        raise ConnectError(exc) from exc

def handle_request(connect):
    try:
        return connect_tcp(connect)
    except BaseException as exc:
        raise exc from None
""",
)

ANYIO = module(
    "anyio._core._sockets",
    """
def connect_tcp(connects):
    oserrors = []
    for connect in connects:
        try:
            return connect()
        except OSError as exc:
            oserrors.append(exc)
    cause = (
        oserrors[0]
        if len(oserrors) == 1
        else ExceptionGroup("multiple connection attempts failed", oserrors)
    )
    raise OSError("All connection attempts failed") from cause
""",
)

HTTPX = module(
    "httpx",
    """
class ConnectError(Exception): ...

def _send_single_request(connect):
    try:
        return handle_request(connect)
    except Exception as exc:
        raise ConnectError(str(exc)) from exc

def send(*connects):
    history = []
    for connect in connects:
        response = _send_single_request(connect)
        history = history + [response]
    return response
""",
    handle_request=HTTPCORE["handle_request"],
)

STRIPE_ERROR = module("stripe._error", "class APIConnectionError(Exception): ...")

STRIPE = module(
    "stripe._http_client",
    """
def request(send):
    try:
        return send()
    except Exception as e:
        raise APIConnectionError("Unexpected error communicating with Stripe.") from e

def _request_with_retries_internal(*sends):
    num_retries = 0
    while True:
        try:
            return request(sends[num_retries])
        except APIConnectionError as e:
            connection_error = e
        if num_retries < len(sends) - 1:
            num_retries += 1
        else:
            raise connection_error
""",
    **STRIPE_ERROR,
) | {"__name__": "stripe._http_client"}

BOTOCORE_EXCEPTIONS = module(
    "botocore.exceptions",
    """
class EndpointConnectionError(Exception):
    def __init__(self, **kwargs):
        super().__init__("Could not connect to the endpoint URL")
        self.kwargs = kwargs
""",
)

BOTOCORE = module(
    "botocore.endpoint",
    """
def _get_response(send):
    try:
        return send(), None
    except NewConnectionError as e:
        try:
            raise EndpointConnectionError(endpoint_url="https://s3", error=e)
        except Exception as better:
            return None, better
    except Exception as e:
        return None, e

def _send_request(*sends):
    attempts = 1
    response, exception = _get_response(sends[0])
    while exception is not None and attempts < len(sends):
        attempts += 1
        response, exception = _get_response(sends[attempts - 1])
    if exception is not None:
        raise exception
    return response
""",
    EndpointConnectionError=BOTOCORE_EXCEPTIONS["EndpointConnectionError"],
    NewConnectionError=__import__("urllib3").exceptions.NewConnectionError,
)

TENACITY = module(
    "tenacity",
    """
class RetryError(Exception): ...

def call(*functions, reraise):
    for function in functions:
        try:
            return function()
        except Exception as e:
            last = e
    if reraise:
        raise last
    raise RetryError() from last
""",
)

Call = Callable[[], Any]
