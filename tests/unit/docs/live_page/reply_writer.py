from collections.abc import AsyncIterator

from streams import App, Context

app = App("writer")


@app.job("write_reply")
async def write_reply(ctx: Context) -> dict[str, str]:
    ctx.log.info("begins", ticket=ctx.input["ticket"])
    text = await ctx.step("draft", draft, ctx, ctx.input["ticket"])
    return {"text": text}


async def draft(ctx: Context, ticket: str) -> str:
    words = list[str]()
    async for word in tokens_of_a_model(ticket):
        ctx.stream(word)
        words.append(word)
    return "".join(words)


async def tokens_of_a_model(ticket: str) -> AsyncIterator[str]:
    for word in ("Dear ", "customer, ", "thank you."):
        yield word
