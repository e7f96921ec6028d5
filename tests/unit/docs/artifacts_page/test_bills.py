from bills import app

from streams.testing import Bench, Saved


def test_a_bill_is_made_and_sent() -> None:
    with Bench(app) as bench:
        job = bench.submit("make_bill", {"customer": "Ada"}).run()
        assert job.result["rows"] == 50_000
        assert Saved("bill.txt", b"Bill for Ada", "text/plain") in job.artifacts
        sent = bench.submit("send_bill", {"bill": job.result["bill"]}).run()
        assert sent.result == len("Bill for Ada")
