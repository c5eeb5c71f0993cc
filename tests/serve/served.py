"""A server in a thread of this process, and calls of it."""

import asyncio
import contextlib
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CODE = Path(__file__).parent / "code" / "slow.py"


class Served:
    """A server of a folder on two free ports."""

    def __init__(self, store, names=None, limits=None, token=None, **settings):
        from rushlight.serve._registry import Settings
        from rushlight.serve._server import Server

        self.server = Server(store, Settings(**settings), True, limits, token)
        self.loop = asyncio.new_event_loop()
        self.ports, self.started = None, threading.Event()
        self.thread = threading.Thread(target=self.live, args=(names,))
        self.thread.start()
        assert self.started.wait(120)

    def live(self, names):
        run = self.server.run("127.0.0.1", (0, 0), names=names, ready=self.ready)
        with contextlib.closing(self.loop):
            self.loop.run_until_complete(run)

    def ready(self, *ports):
        self.ports = ports
        self.started.set()

    def stop(self):
        self.loop.call_soon_threadsafe(self.server.stop)
        self.thread.join()

    def call(self, method, path, body=None, management=False, **headers):
        """Status, headers and body of an answer; JSON is decoded."""
        port = self.ports[bool(management)]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            if not isinstance(body, (bytes, str, type(None))):
                body = json.dumps(body)
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            text = answer.read()
            if answer.headers.get_content_type() == "application/json":
                text = json.loads(text)
            return answer.status, answer.headers, text

    def predict(self, name, body, **headers):
        """Status and body of a prediction."""
        status, _, text = self.call("POST", f"/predictions/{name}", body, **headers)
        return status, text

    def manage(self, method, path):
        """Status and body of a management call."""
        status, _, text = self.call(method, path, management=True)
        return status, text

    def together(self, calls):
        """The results of calls that run at the same time."""
        with ThreadPoolExecutor(len(calls)) as pool:
            return [each.result() for each in [pool.submit(call) for call in calls]]

    def pids(self, name):
        """The processes of a model's workers."""
        _, (found,) = self.manage("GET", f"/models/{name}")
        return [worker["pid"] for worker in found["workers"]]
