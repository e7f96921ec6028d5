from own_middleware import Maintenance, SlowEffects, app, maintenance

from streams.testing import Bench, middleware_rules


def test_they_keep_the_rules() -> None:
    for rule in middleware_rules():
        rule(Maintenance())
        rule(SlowEffects(2))


def test_jobs_come_back_after_the_maintenance() -> None:
    with Bench(app) as bench:
        bench.fake("email:send", returns="sent")
        maintenance.is_on = True
        job = bench.submit("invoice", {"to": "ann@example.com"}).run(runs=1)
        maintenance.is_on = False
        assert job.error == "RetryAfter: the shop is being moved (in middleware Maintenance)"
        assert (job.status, job.calls) == ("scheduled", [])
        assert job.run().result == "sent"
