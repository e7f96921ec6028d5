"""stub"""

from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import generate_latest


class Api:
    def __init__(self, settings):
        self.partitions = None
        from prometheus_client import REGISTRY

        from streams.analytics.metrics import TablesCollector

        REGISTRY.register(TablesCollector(lambda: self.partitions))


@asynccontextmanager
async def listening(api, settings):
    app = web.Application()

    async def ready(_):
        ok = api.partitions is not None and api.partitions.assigned
        return web.Response(status=200 if ok else 503)

    async def metrics(_):
        return web.Response(body=generate_latest())

    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
