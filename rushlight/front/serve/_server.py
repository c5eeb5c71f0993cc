"""Runs both applications in one event loop, on a port each."""

import asyncio
import contextlib
import logging
import signal

from rushlight.serve._answers import Refused
from rushlight.serve._registry import Registry

log = logging.getLogger("rushlight.serve")


class Server:
    """A server of a folder of models.

    Args:
        store: the folder.
        settings: how models are served that say nothing else.
        allow_code: whether archives with code in them are served.
        limits: what a request may be.
        token: what management calls have to bear; None lets everyone.
    """

    def __init__(self, store, settings, allow_code=False, limits=None, token=None):
        from rushlight.serve._app import Inference, Limits, Management, application

        self.registry = Registry(store, settings, allow_code)
        inference = Inference(self.registry, limits or Limits())
        self.applications = (
            application(inference),
            application(Management(self.registry, token)),
        )
        self.servers = []

    async def load(self, names):
        """Registers files of the store, side by side; says which cannot be served."""

        async def one(name):
            try:
                model = await self.registry.register(name)
                log.info("%s: %s %s is served", name, model.name, model.version)
            except Refused as error:
                log.error("%s is not served: %s", name, error)

        await asyncio.gather(*map(one, names))

    async def run(
        self, host, ports, management_host="127.0.0.1", names=None, ready=None
    ):
        """Serves until a signal ends it.

        Args:
            host: where predictions are asked for.
            ports: of predictions and of management.
            management_host: where management calls come from.
            names: files of the store to serve at once; by default all.
            ready: called with both ports when the server takes requests.
        """
        import uvicorn

        await self.load(self.registry.files() if names is None else names)
        for app, where, port in zip(self.applications, (host, management_host), ports):
            config = uvicorn.Config(
                app, host=where, port=port, log_level="warning", access_log=False,
                lifespan="off", timeout_keep_alive=75, h11_max_incomplete_event_size=1 << 16,
            )  # fmt: skip
            self.servers.append(uvicorn.Server(config))
            # signals are this server's: uvicorn's own handlers would end the process
            # before its workers
            self.servers[-1].capture_signals = contextlib.nullcontext
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, self.stop)
        tasks = [asyncio.create_task(server.serve()) for server in self.servers]
        try:
            await self.started(tasks, ready)
            await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
            for server in self.servers:
                server.should_exit = True
            await asyncio.gather(*tasks)
        finally:
            await self.registry.close()

    async def started(self, tasks, ready):
        """Waits until both ports are open."""
        while not all(server.started for server in self.servers):
            if any(task.done() for task in tasks):
                return
            await asyncio.sleep(0.01)
        found = [s.servers[0].sockets[0].getsockname()[1] for s in self.servers]
        log.info("predictions on port %d, management on port %d", *found)
        if ready is not None:
            ready(*found)

    def stop(self):
        """Ends the server when what it has accepted is answered."""
        for server in self.servers:
            server.should_exit = True


def serve(server, host, ports, management_host, names, ready=None):
    """Runs a server in an event loop of its own."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.run(host, ports, management_host, names, ready))
