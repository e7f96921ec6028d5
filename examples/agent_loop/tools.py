"""The tools of the agent. One that cannot do what it was asked says so in its result.

Such a result is kept like any other, and the model reads it. An error is raised only where the
call is to be tried again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

log = structlog.get_logger(__name__)

_ORDERS = {"4711": {"status": "delivered", "cents": 8_200, "customer": "ada@example.com"}}


async def order(order_id: str, idempotency_key: str) -> dict[str, Any]:
    """What the shop knows of an order."""
    return _ORDERS.get(order_id, {"error": f"there is no order {order_id}"})


async def refund(order_id: str, cents: int, idempotency_key: str) -> dict[str, Any]:
    """Pay an order back."""
    log.info("refunded", order_id=order_id, cents=cents, idempotency_key=idempotency_key)
    return {"refunded": cents}


async def send_email(to: str, text: str, idempotency_key: str) -> dict[str, Any]:
    """Write to a customer."""
    log.info("e-mail sent", to=to, text=text, idempotency_key=idempotency_key)
    return {"sent_to": to}


TOOLS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "shop:order": order,
    "shop:refund": refund,
    "email:send": send_email,
}


def fault(call: dict[str, Any]) -> str | None:
    """Why a call cannot be made, for the model to read: models make up tools and arguments."""
    tool = TOOLS.get(call["tool"])
    if tool is None:
        return f"there is no tool {call['tool']}: use one of {', '.join(TOOLS)}"
    try:
        inspect.signature(tool).bind(**call["arguments"], idempotency_key="")
    except TypeError as error:
        return f"{call['tool']}: {error}"
    return None
