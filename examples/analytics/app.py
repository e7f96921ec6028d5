"""Paid orders by tenant and hour: a team's own table over Tidegate's events."""

from datetime import timedelta

from streams.analytics.app import faust_app, topic

app = faust_app("paid-orders", topic_partitions=4)  # as many as `events` has
paid = app.Table("paid", default=int).tumbling(timedelta(hours=1), expires=timedelta(days=7))


@app.agent(topic(app, "events"))
async def count(stream):
    """Count each paid order in the hour in which its delivery came."""
    async for event in stream.events():
        if event.value["event_type"] == "order.paid":
            tenant = event.value["tenant_id"]
            paid[tenant] += 1
            print(f"{tenant}: {paid[tenant].value()} paid this hour", flush=True)


if __name__ == "__main__":
    app.main()
