"""Whether an error proves that an effect's call did nothing.

A tool proves it by a `JobError`, or by an error that the application declares as such a proof.
Otherwise only a refused connection proves it, and only if the error *is* that of a connect. A
client's wrapper of such an error is known by its name and by the attribute that holds the wrapped
error. Any other error may merely have followed a refused connection: there may have been a second
call, or a repetition inside the client whose first attempt was answered.
"""

from __future__ import annotations

import ast
import errno
import inspect
import re
import textwrap
import traceback
from collections.abc import Mapping
from tokenize import TokenError
from types import CodeType, FrameType

from streams.errors import JobError
from streams.worker.tool_call import is_disproved

THROUGH_CONTEXT = "through_context"
"""The attribute of an error from another process that says whether a call on `ctx` raised it."""

_PLAIN = "builtins.OSError"
"""anyio raises it if all addresses of a host failed; without a cause it may mean anything."""

_INNER: Mapping[str, tuple[str, ...]] = {
    "aiohttp.client_exceptions.ClientConnectorError": ("os_error",),
    "aiohttp.client_exceptions.ClientProxyConnectionError": ("os_error",),
    "anyio.ConnectionFailed": ("__cause__",),
    "botocore.exceptions.EndpointConnectionError": ("__context__",),
    _PLAIN: ("__cause__",),
    "httpcore.ConnectError": ("__cause__", "__context__"),  # its pool raises it "from None"
    "httpx.ConnectError": ("__cause__",),
    "requests.exceptions.ConnectionError": ("__context__",),
    "requests.exceptions.ProxyError": ("__context__",),
    "stripe._error.APIConnectionError": ("__cause__",),
    "stripe.error.APIConnectionError": ("__cause__",),
    "urllib.error.URLError": ("reason",),
    "urllib3.exceptions.MaxRetryError": ("reason",),
    "urllib3.exceptions.NewConnectionError": ("__cause__", "__context__"),
    "urllib3.exceptions.ProxyError": ("original_error",),
}
"""Wrappers of a failed connect, and the attribute that holds the error they wrap."""

_CLIENTS = frozenset(name.partition(".")[0] for name in _INNER) | {"aiobotocore", "http"}
_REPEATERS = frozenset(
    {"aiohttp_retry", "backoff", "httpx_retries", "retry", "retrying", "stamina", "tenacity"}
)
_HANDLER = "streams.worker.handler."
_OF_THE_CALL = {f"{_HANDLER}{name}" for name in ("effects", "invoke", "left_calls")}
"""The modules that call a tool; those beside them carry out what is called on `ctx`."""
_LONGEST_CHAIN = 10
_ASYNCIO_ALL_FAILED = "Multiple exceptions: "


def not_done(
    error: BaseException,
    nothing_done: tuple[type[Exception], ...] = (),
    handled: BaseException | None = None,
) -> bool:
    """Whether an error proves that the effect did not happen; types of `nothing_done` always do.

    `handled` is the error that the handler was handling when the call began, perhaps of another
    effect. A group proves nothing: tasks beside the failed ones were cancelled at unknown points.
    """
    if _came_through_the_context(error) or is_disproved(error):
        return False
    return isinstance(error, (JobError, *nothing_done)) or _is_refused(error, handled)


def _came_through_the_context(error: BaseException) -> bool:
    """Whether a call on `ctx`, made inside the tool, raised it or let it pass.

    Then it says what became of that, and nothing of what the tool did before.
    """
    if getattr(error, THROUGH_CONTEXT, False):
        return True
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    names = (str(frame.f_globals.get("__name__")) for frame in frames)
    return any(name.startswith(_HANDLER) and name not in _OF_THE_CALL for name in names)


def _is_refused(error: object, handled: BaseException | None = None) -> bool:
    chain: list[BaseException] = []
    while isinstance(error, BaseException) and len(chain) < _LONGEST_CHAIN:
        chain.append(error)
        if _is_leaf(error, is_first=len(chain) == 1):
            expected = [*chain, handled]
            return not any(_followed_another(each, expected) for each in chain)
        error = _inner(error, is_first=len(chain) == 1)
    return False


def _is_leaf(error: BaseException, *, is_first: bool) -> bool:
    if isinstance(error, ConnectionRefusedError):
        return True
    if isinstance(error, BaseExceptionGroup):  # inside a wrapper: one error for each address
        return not is_first and all(map(_is_refused, error.exceptions))
    if type(error) is OSError and str(error).startswith(_ASYNCIO_ALL_FAILED):
        numbers = re.findall(r"\[Errno (\d+)\]", str(error))
        return set(numbers) == {str(errno.ECONNREFUSED)}
    return False


def _inner(error: BaseException, *, is_first: bool) -> object:
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    if is_first and name == _PLAIN:
        return None
    found = (getattr(error, attribute, None) for attribute in _INNER.get(name, ()))
    return next((inner for inner in found if inner is not None), None)


def _followed_another(error: BaseException, expected: list[BaseException | None]) -> bool:
    """Whether there was an earlier call, whose outcome this error does not tell."""
    context = error.__context__
    if context is not None and not any(context is known for known in expected):
        return True
    # A frame that raised the error again is listed twice; the last entry has the original call.
    lines = dict(traceback.walk_tb(error.__traceback__))
    return (
        _recurs(list(lines))
        or any(map(_shows_an_earlier_attempt, lines))
        or any(_handled_another(frame, line) for frame, line in lines.items())
    )


def _handled_another(frame: FrameType, line: int) -> bool:
    """Whether the call was made in an `except` block, that is, after an earlier attempt.

    The errors do not always show this: a resumed coroutine does not know which error its caller
    is handling (CPython 3.11).
    """
    if _package(frame) in _CLIENTS:
        return False
    try:
        source, first = inspect.getsourcelines(frame.f_code)
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (OSError, TypeError, SyntaxError):
        return False
    except (ValueError, RecursionError, TokenError):
        return True  # the file has changed since it was loaded: nothing is proved
    at = line - first + 1
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    return any(block.body[0].lineno <= at <= (block.end_lineno or 0) for block in blocks)


def _recurs(frames: list[FrameType]) -> bool:
    """Whether a client called itself, as it does to follow a redirect or to try again.

    urllib3 keeps the error of each attempt. Refused attempts did nothing, so they do not count.
    """
    last: dict[CodeType, FrameType] = {}
    for frame in frames:
        if _package(frame) not in _CLIENTS:
            continue
        before = last.get(frame.f_code)
        if before is not None and not _is_refused(before.f_locals.get("err")):
            return True
        last[frame.f_code] = frame
    return False


def _shows_an_earlier_attempt(frame: FrameType) -> bool:
    """Whether a client's loop is past its first round, as its own variables say."""
    seen = frame.f_locals
    match _package(frame):
        case "aiohttp":
            dropped = seen.get("retry_persistent_connection") is False
            dropped = dropped and seen.get("method") not in ("POST", "PATCH")
            return bool(dropped or seen.get("history") or seen.get("effective_middlewares"))
        case "httpx":  # of a redirect, or of a challenge to authenticate
            return bool(seen.get("history"))
        case "stripe":
            return bool(seen.get("num_retries", 0))
        case "botocore" | "aiobotocore":
            return bool(seen.get("attempts", 1) != 1)
        case package:
            return package in _REPEATERS


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
