"""The calls of the server: predictions on one port, management on the other."""

import asyncio
import functools
import hmac
import json
import time

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rushlight.serve._answers import Refused, bad, fault
from rushlight.serve._pool import WorkerFailed
from rushlight.serve._queue import Full, Job
from rushlight.serve.handlers import JSON, Request


class Limits:
    """What a request may be: bytes of its body, seconds to send it."""

    def __init__(self, body=6_553_500, seconds=30.0):
        self.body, self.seconds = body, seconds


async def body_of(request, limits):
    """The body of a request.

    Raises:
        Refused: it is larger, or comes more slowly, than it may.
    """
    too_large = Refused(
        413, "RequestTooLarge", f"the body has more than {limits.body} bytes"
    )
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > limits.body:
        raise too_large

    async def received():
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limits.body:
                raise too_large
            parts.append(part)
        return b"".join(parts)

    try:
        return await asyncio.wait_for(received(), limits.seconds)
    except TimeoutError:
        words = f"the body did not come in {limits.seconds:g} s"
        raise Refused(408, "RequestTimeoutException", words) from None


def answered(way):
    """The call, with what it refuses as an answer."""

    @functools.wraps(way)
    async def call(request):
        try:
            return await way(request)
        except Refused as error:
            head, body = fault(error.status, error.kind, str(error))
            return Response(body, error.status, error.headers, head["content_type"])

    return call


def plain(text):
    """A media type without its parameters."""
    return text.partition(";")[0].strip().lower()


class Inference:
    """Predictions, and whether the server can make them."""

    def __init__(self, registry, limits):
        self.registry, self.limits = registry, limits

    def routes(self):
        """Paths and what answers them."""
        ways = ["/predictions/{name}", "/predictions/{name}/{version}"]
        for path in ways:
            yield Route(path, answered(self.predict), methods=["POST", "PUT"])
        for path in ("/batches/{name}", "/batches/{name}/{version}"):
            yield Route(path, answered(self.predict_batch), methods=["POST"])
        yield Route("/ping", answered(self.ping), methods=["GET"])

    async def ping(self, request):
        """Healthy where every default version has a worker."""
        registry = self.registry
        for name in registry.models:
            if not registry.found(name).ready:
                body = {"status": "Unhealthy", "model": name}
                return JSONResponse(body, 503)
        return JSONResponse({"status": "Healthy"})

    def model(self, request):
        """The model that a path names."""
        return self.registry.found(
            request.path_params["name"], request.path_params.get("version")
        )

    async def result(self, model, asked):
        """Status, head and body of the answer to a request."""
        metrics, began = self.registry.metrics, time.monotonic()
        try:
            job = Job(asked)
            model.queue.put(job)
            answer = await asyncio.wait_for(job.answer, model.settings.request_timeout)
        except Full:
            words = f"Model {model.name} has no worker free, and its queue is full"
            kind = "ServiceUnavailableException"
            answer = (503, *fault(503, kind, words))
            answer[1]["headers"] = {"retry-after": "1"}
        except TimeoutError:
            words = f"no answer in {model.settings.request_timeout:g} s"
            answer = (504, *fault(504, "RequestTimeoutException", words))
        metrics.latency.observe(time.monotonic() - began, **model.labels)
        metrics.requests.add(**model.labels, status=answer[0])
        return answer

    async def predict(self, request):
        """One prediction."""
        model = self.model(request)
        asked = Request(
            await body_of(request, self.limits),
            plain(request.headers.get("content-type", JSON)),
            plain(request.headers.get("accept", JSON)),
        )
        status, head, body = await self.result(model, asked)
        return Response(body, status, head["headers"], head["content_type"])

    async def predict_batch(self, request):
        """Predictions of the items of a list, each as if it had come alone."""
        model = self.model(request)
        try:
            items = json.loads(await body_of(request, self.limits))
        except (ValueError, RecursionError) as error:
            raise bad(f"the body is no JSON: {error}") from None
        items = items.get("instances") if isinstance(items, dict) else items
        if not isinstance(items, list):
            raise bad("a batch is a list, or {'instances': [...]}")
        if len(items) > model.settings.queue_size:
            raise bad(f"a batch has {model.settings.queue_size} instances at most")
        asked = [Request(json.dumps(item).encode()) for item in items]
        answers = await asyncio.gather(*(self.result(model, each) for each in asked))
        parts = [b'{"code": %d, "answer": %s}' % (a[0], a[2]) for a in answers]
        return Response(b'{"predictions": [%s]}' % b", ".join(parts), 200, None, JSON)


class Management:
    """Registers, scales and describes models; counts."""

    def __init__(self, registry, token=None):
        self.registry, self.token = registry, token

    def routes(self):
        """Paths and what answers them."""
        one, version = "/models/{name}", "/models/{name}/{version}"
        table = (
            ("/models", self.listing, "GET"),
            ("/models", self.register, "POST"),
            (f"{version}/set-default", self.set_default, "PUT"),
            (version, self.describe, "GET"),
            (version, self.scale, "PUT"),
            (version, self.unregister, "DELETE"),
            (one, self.describe, "GET"),
            (one, self.scale, "PUT"),
            (one, self.unregister, "DELETE"),
            ("/metrics", self.metrics, "GET"),
        )
        for path, way, method in table:
            yield Route(path, answered(self.allowed(way)), methods=[method])

    def allowed(self, way):
        """The call, for those who have the token."""

        async def call(request):
            given = request.headers.get("authorization", "")
            if self.token and not hmac.compare_digest(
                given.encode(), f"Bearer {self.token}".encode()
            ):
                raise Refused(
                    401, "UnauthorizedException", "a bearer token is expected"
                )
            return await way(request)

        return call

    def named(self, request):
        """Name and version of a path."""
        return request.path_params["name"], request.path_params.get("version")

    async def listing(self, request):
        """The names of all models, in pages."""
        try:
            limit = int(request.query_params.get("limit", 100))
            start = int(request.query_params.get("next_page_token", 0))
        except ValueError:
            raise bad("limit and next_page_token are numbers") from None
        registry = self.registry
        names = sorted(registry.models)
        body = {
            "models": [
                {"modelName": name, "modelUrl": registry.found(name).path.name}
                for name in names[start : start + limit]
            ]
        }
        if start + limit < len(names):
            body["nextPageToken"] = str(start + limit)
        return JSONResponse(body)

    async def register(self, request):
        """Registers a file of the store."""
        given = dict(request.query_params)
        given["min_workers"] = given.get("initial_workers", given.get("min_workers"))
        wait = given.get("synchronous", "true").lower() != "false"
        model = await self.registry.register(given.get("url"), given, wait)
        words = f'Model "{model.name}" Version: {model.version} registered with '
        words += f"{len(model.workers)} initial workers"
        return JSONResponse({"status": words}, 200 if wait else 202)

    async def describe(self, request):
        """What there is to know of a model; of ``all`` versions where asked."""
        name, version = self.named(request)
        if version == "all":
            self.registry.found(name)
            models = self.registry.models[name].values()
        else:
            models = [self.registry.found(name, version)]
        return JSONResponse([model.describe() for model in models])

    async def scale(self, request):
        """Changes the number of workers."""
        model = self.registry.found(*self.named(request))
        given = request.query_params
        try:
            count = int(given.get("min_worker", given.get("min_workers", "1")))
        except ValueError:
            raise bad("min_worker is a number") from None
        if not 0 <= count <= 256:
            raise bad("min_worker is from 0 to 256")
        wait = given.get("synchronous", "false").lower() == "true"
        change = model.scale(count)
        if not wait:
            self.background = asyncio.create_task(change)
            return JSONResponse({"status": "Processing worker updates..."}, 202)
        await change
        try:
            await model.until_ready(model.settings.startup_timeout)
        except WorkerFailed as error:
            raise Refused(500, "WorkerFailedException", str(error)) from None
        return JSONResponse({"status": f"Workers scaled to {count} for {model.name}"})

    async def unregister(self, request):
        """Ends a version of a model."""
        model = await self.registry.unregister(*self.named(request))
        return JSONResponse({"status": f'Model "{model.name}" unregistered'})

    async def set_default(self, request):
        """Lets a name mean a version."""
        name, version = self.named(request)
        self.registry.make_default(name, version)
        words = (
            f'Default version successfully updated for model "{name}" to "{version}"'
        )
        return JSONResponse({"status": words})

    async def metrics(self, request):
        """All counts, in Prometheus's text form."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(self.registry.metrics.text(), media_type=kind)


def application(part):
    """The ASGI application of a part's routes."""
    return Starlette(routes=list(part.routes()))
