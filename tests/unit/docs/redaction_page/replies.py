from typing import Any

from streams import App, Context, PermanentError

app = App("replies")


@app.job("draft_reply")
async def draft_reply(ctx: Context) -> dict[str, Any]:
    ticket = ctx.input
    customer = await ctx.step("customer", look_up, ticket["customer"])
    await ctx.progress({"stage": "looked up", "mail": customer["mail"]})
    if ticket["text"] == "":
        raise PermanentError(f"{customer['mail']} wrote nothing")
    return {"to": customer["name"], "iban": "CH93 0076", "text": f"About {ticket['text']}"}


def look_up(number: int) -> dict[str, str]:
    return {"name": "Ann", "mail": "ann@example.com", "iban": "CH93 0076"}
