from images import app

from streams.testing import Bench


def test_words_are_counted_and_texts_are_hashed() -> None:
    with Bench(app) as bench:
        assert bench.submit("count_words", {"name": "Ada"}).run().result == 4
        assert len(bench.submit("hash_text").run().result) == 128
