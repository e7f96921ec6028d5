from reply_writer import app

from streams.testing import Bench, LogLine


def test_the_draft_is_streamed() -> None:
    with Bench(app) as bench:
        job = bench.submit("write_reply", {"ticket": "t-1"}).run()
        assert job.streamed == {"draft": "Dear customer, thank you."}
        assert job.log == [LogLine("info", "begins")]
