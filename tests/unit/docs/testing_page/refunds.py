from aiohttp import ClientSession

from streams import App, Context, Retry

app = App("refunds")
app.tool("email:send", key_lifetime=86_400)  # it knows a key again for a day
# payment:refund is not declared: it honours no key


@app.job("refund_order", retry=Retry(max_attempts=3, backoff=(30, 300)), timeout=60)
async def refund_order(ctx: Context) -> dict[str, str]:
    order = await ctx.json() if ctx.event else ctx.input
    text = await ctx.step("text", write_text, order["id"])
    await ctx.progress({"stage": "written"})
    await ctx.effect("payment:refund", pay_back, key="order", order_id=order["id"])
    await ctx.effect("email:send", send_email, key="refunded", to=order["email"], text=text)
    return {"text": text}


@app.preflight("refund_order")
async def still_wanted(ctx: Context) -> bool:
    return ctx.event is None or ctx.event.attributes.get("status") != "withdrawn"


@app.job("write_note", scopes={"email:send"})
async def write_note(ctx: Context) -> None:
    await ctx.effect("crm:note", add_note, key="note", text=ctx.input["text"])


def write_text(order_id: str) -> str:
    return f"Order {order_id} is paid back."


async def pay_back(order_id: str, idempotency_key: str) -> dict[str, str]:
    return await post("refunds", idempotency_key, order=order_id)


async def send_email(to: str, text: str, idempotency_key: str) -> dict[str, str]:
    return await post("emails", idempotency_key, to=to, text=text)


async def add_note(text: str, idempotency_key: str) -> None:
    await post("notes", idempotency_key, text=text)


async def post(path: str, idempotency_key: str, **body: str) -> dict[str, str]:
    headers = {"Idempotency-Key": idempotency_key}
    async with (
        ClientSession("https://api.shop.example", raise_for_status=True) as session,
        session.post(f"/{path}", json=body, headers=headers) as answer,
    ):
        answered: dict[str, str] = await answer.json()
        return answered
