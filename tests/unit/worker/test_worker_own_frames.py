"""A handler's traceback shows its author's lines, not those that lead to them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jmespath
import pytest

from streams.errors import PermanentError
from streams.worker.handler.invoke import call
from streams.worker.handler.own_frames import own_stack, own_traceback


async def handler() -> None:
    async with asyncio.timeout(0.01):
        await wait_for_tool()


async def wait_for_tool() -> None:
    await asyncio.get_running_loop().create_future()


async def test_frames_of_the_worker_and_of_asyncio_are_cut_from_a_whole_chain() -> None:
    with pytest.raises(TimeoutError) as raised:
        await call(handler)
    told = own_traceback(raised.value)
    assert "in wait_for_tool" in told
    assert "CancelledError" in told, "what it came from is told"
    assert "invoke.py" not in told
    assert "asyncio/" not in told
    assert told.splitlines()[-1] == "TimeoutError"


async def test_errors_of_a_group_are_cut_too() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        await call(fails)
    told = own_traceback(ExceptionGroup("both", [raised.value]))
    assert "in fails" in told
    assert "daemon_thread.py" not in told


def test_frames_of_libraries_are_cut() -> None:
    def reads() -> None:
        try:
            json.loads("{")
        except ValueError as error:
            raise jmespath.exceptions.LexerError(0, "{", str(error)) from error

    with pytest.raises(jmespath.exceptions.LexerError) as raised:
        reads()
    told = own_traceback(raised.value)
    assert told.count("in reads") == 2
    assert "decoder.py" not in told
    with pytest.raises(jmespath.exceptions.JMESPathError) as refused:
        jmespath.compile("a.[b")
    told = own_traceback(refused.value)
    assert told.count("File ") == told.count("in test_frames_of_libraries") == 1
    assert "\njmespath.exceptions." in told, "its message stays"


INSTALLED = """
from dataclasses import dataclass

@dataclass
class Order:
    amount: int

    def __post_init__(self):
        raise ValueError("no amount")

def handler():
    Order(0)
"""


def test_an_application_that_is_installed_keeps_its_lines_beside_made_code() -> None:
    """The line of the dataclass's own `__init__` (`<string>`) stood alone."""
    application: dict[str, Any] = {"__name__": "shop"}
    place = "/opt/lib/site-packages/shop/jobs.py"
    exec(compile(INSTALLED, place, "exec", dont_inherit=True), application)
    with pytest.raises(ValueError, match="no amount") as raised:
        application["handler"]()
    error = raised.value
    assert error.__traceback__ is not None
    told = own_traceback(error.with_traceback(error.__traceback__.tb_next))
    assert "in handler" in told
    assert "in __post_init__" in told


def test_an_error_without_lines_of_the_author_keeps_them_all() -> None:
    try:
        raise PermanentError("no")
    except PermanentError as error:
        inner = error.with_traceback(None)
    assert own_traceback(inner) == "streams.errors.PermanentError: no"


async def test_a_waiting_handler_stands_where_its_author_waits() -> None:
    async def run() -> None:
        await call(wait_for_tool)

    task = asyncio.create_task(run())
    while task.get_coro().cr_await is None:  # type: ignore[union-attr]
        await asyncio.sleep(0)
    told = own_stack(task)
    task.cancel()
    assert "in wait_for_tool" in told
    assert "invoke.py" not in told
