"""An archive of ``rushlight.serve`` on a Ray cluster: the same handler, many machines.

Run it where Ray Serve is installed (``pip install "ray[serve]"``), and the archive is at
the same path of every machine or on a shared one:

    python examples/serving_ray.py models/mlp.rlm --replicas 4

Ray routes requests to replicas, restarts them and adds machines; batches are made here as
there, by size and by how long a request may wait.
"""

import argparse

from rushlight.serve import Request, open_model
from rushlight.serve.handlers import JSON


class Replica:
    """One copy of the model, which answers batches of requests."""

    def __init__(self, path, allow_code=False):
        self.handler = open_model(path, allow_code)

    def answers(self, requests):
        """The answers of requests that came together."""
        return self.handler.handle(requests)


def deployment(serve, path, replicas, batch_size, delay, allow_code=False):
    """The application that Ray Serve runs.

    Args:
        serve: the module ``ray.serve``.
        path: the archive.
        replicas: how many copies of the model there are.
        batch_size: how many requests run together at most.
        delay: seconds that a request waits for others.
        allow_code: whether code of the archive may run.
    """
    from starlette.responses import Response

    @serve.deployment(num_replicas=replicas)
    class Served(Replica):
        @serve.batch(max_batch_size=batch_size, batch_wait_timeout_s=delay)
        async def together(self, requests):
            return self.answers(requests)

        async def __call__(self, call):
            head = call.headers
            request = Request(
                await call.body(),
                head.get("content-type", JSON),
                head.get("accept", JSON),
            )
            found = await self.together(request)
            return Response(found.body, found.status, found.headers, found.content_type)

    return Served.bind(path, allow_code)


def main():
    """Deploys the archive and waits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--delay", type=float, default=0.002)
    parser.add_argument("--allow-code", action="store_true")
    given = parser.parse_args()
    from ray import serve

    application = deployment(
        serve, given.archive, given.replicas, given.batch_size, given.delay,
        given.allow_code,
    )  # fmt: skip
    serve.run(application, blocking=True)


if __name__ == "__main__":
    main()
