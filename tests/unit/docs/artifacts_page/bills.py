from streams import App, Context

app = App("bills")


@app.job("make_bill")
async def make_bill(ctx: Context) -> dict[str, object]:
    bill = await ctx.save(
        f"Bill for {ctx.input['customer']}".encode(), name="bill.txt", content_type="text/plain"
    )
    rows = await ctx.step("rows", read_rows, 50_000)
    return {"bill": bill, "rows": len(rows)}


@app.job("send_bill")
async def send_bill(ctx: Context) -> int:
    return len(await ctx.load(ctx.input["bill"]))


def read_rows(number: int) -> list[str]:
    return [f"row {row}" for row in range(number)]
