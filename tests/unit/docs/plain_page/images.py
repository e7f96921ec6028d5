from typing import Any

from streams import App, BlockingContext

app = App("images")


@app.job("count_words", timeout=60)
def count_words(ctx: BlockingContext[Any]) -> int:
    text = ctx.step("text", read_text, ctx.input["name"])
    return len(text.split())


@app.job("hash_text", timeout=600, cpu=True, memory_mb=2_000)
def hash_text(ctx: BlockingContext[Any]) -> str:
    import hashlib

    return hashlib.scrypt(b"text", salt=b"salt", n=2**14, r=8, p=1).hex()


def read_text(name: str) -> str:
    return f"the text of {name}"
