"""The example deploys an archive's handler; on Ray where that is installed."""

import asyncio
import importlib.util
import json
import types
import warnings
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.serve import pack

PATH = Path(__file__).parents[2] / "examples" / "serving_ray.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("serving_ray", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    net = rl.nn.Linear(2, 1).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        rl.jit.trace(net, rl.ones(1, 2)).save(folder / "net.pt")
    options = {"join": "concatenate", "dtype": "float32"}
    return net, pack(folder / "net.rlm", "net", folder / "net.pt", **options)


class Call:
    """What Ray Serve gives a deployment: a request of Starlette's."""

    headers = {}

    def __init__(self, value):
        self.value = value

    async def body(self):
        return json.dumps(self.value).encode()


def stand_in():
    """``ray.serve`` as far as the example uses it, in this process."""

    def batch(**given):
        def wrapped(way):
            async def alone(self, request):
                return (await way(self, [request]))[0]

            return alone

        return wrapped

    def deployment(**given):
        def wrapped(kind):
            kind.bind = classmethod(lambda cls, *operands: cls(*operands))
            return kind

        return wrapped

    return types.SimpleNamespace(batch=batch, deployment=deployment)


def test_a_deployment_answers_as_the_model(example, archive):
    pytest.importorskip("starlette")
    net, path = archive
    served = example.deployment(stand_in(), path, 2, 8, 0.002)
    answer = asyncio.run(served(Call({"inputs": [[1, 2], [3, 4]]})))
    found = json.loads(answer.body)["outputs"]
    expected = net(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert answer.status_code == 200
    assert rl.tensor(found).allclose(expected, atol=1e-6)


def test_ray_serves_the_archive(example, archive):
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    serve = pytest.importorskip("ray.serve")
    net, path = archive
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        handle = serve.run(example.deployment(serve, path, 1, 8, 0.002))
        answer = handle.remote(Call({"inputs": [[1, 2]]})).result()
        assert answer.status_code == 200
    finally:
        serve.shutdown()
        ray.shutdown()
