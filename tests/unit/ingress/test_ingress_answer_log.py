"""The ingress's debug lines about deliveries that made no event."""

from __future__ import annotations

from structlog.testing import capture_logs

from ingress.receive.answer_log import LINES_A_SECOND, AnswerLog


def test_a_flood_writes_a_few_lines_a_second_and_then_how_many_were_left_out() -> None:
    now = [0.0]
    answers = AnswerLog(lambda: now[0])
    with capture_logs() as lines:
        for _ in range(LINES_A_SECOND + 5):
            answers.duplicate("demo", "zendesk", "evt_1")
        assert len(lines) == LINES_A_SECOND
        now[0] = 1.0
        answers.refused(None, None, "unauthorized")
    assert {line["log_level"] for line in lines} == {"debug"}
    assert lines[0]["event"] == "delivered again"
    assert (lines[-1]["left_out"], lines[-1]["tenant_id"]) == (5, "?")
