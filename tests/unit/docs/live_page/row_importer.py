from streams import App, Context, TransientError

app = App("importer")


@app.job("import_rows")
async def import_rows(ctx: Context) -> int:
    done: int = (ctx.heartbeat_details or {"rows": 0})["rows"]
    for row in range(done, 1_000):
        if row == 600 and ctx.attempt == 1:
            raise TransientError("the source is busy")
        ctx.heartbeat({"rows": row + 1})
    return 1_000 - done
