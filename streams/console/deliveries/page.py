"""Pages of deliveries."""

from __future__ import annotations

from aiohttp import web

from streams.console.serving.asking import Asking
from streams.console.serving.page import Page, Pages
from streams.console.serving.written import segment

pages = Pages("deliveries")

pages.list("/console/deliveries", "/v1/deliveries", "Deliveries", "deliveries")


@pages.get("/console/deliveries/{delivery_id}")
async def delivery(asking: Asking, request: web.Request) -> Page:
    """One delivery with its attempts."""
    delivery_id = request.match_info["delivery_id"]
    shown = await asking.get(f"/v1/deliveries/{segment(delivery_id)}")
    data = {"delivery": shown}
    return Page("deliveries/delivery.html", f"Delivery {delivery_id}", data, watch=("deliveries",))
