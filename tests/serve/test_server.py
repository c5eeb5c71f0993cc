"""A server answers as its models do, in batches, whatever becomes of its workers."""

import functools
import io
import json
import os
import signal
import socket
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.serve import pack

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.serve.served import CODE, Served

VOCABULARY = {"good": 2, "bad": 3, "film": 4}


def network():
    """A small model, the same each time."""
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


def write_store(folder):
    """Archives of every kind of model."""
    net, example = network(), rl.ones(2, 4)
    rl.jit.trace(net, example).save(folder / "scripted.pt")
    rows = rl.export.Dim("rows", max=1024)
    exported = rl.export.export(net, (example,), dynamic_shapes=({0: rows},))
    rl.export.save(exported, folder / "exported.pt2")
    rl.onnx.export(net, (example,), folder / "graph.onnx", dynamic_shapes=({0: rows},))
    rl.manual_seed(1)
    rl.save(nn.Linear(4, 3).state_dict(), folder / "weights.pth")
    words = nn.Sequential(nn.Embedding(8, 4), nn.Flatten(), nn.Linear(24, 2)).eval()
    rl.jit.trace(words, rl.zeros(1, 6, dtype=rl.long)).save(folder / "words.pt")
    picture = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 3))
    rl.jit.trace(picture.eval(), rl.ones(1, 3, 32, 32)).save(folder / "picture.pt")
    (folder / "vocabulary.json").write_text(json.dumps(VOCABULARY))
    (folder / "index_to_name.json").write_text(json.dumps({"0": "no", "1": "yes"}))
    return words, picture


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    parts, store = tmp_path_factory.mktemp("parts"), tmp_path_factory.mktemp("store")
    models = write_store(parts)
    join = {"join": "concatenate", "dtype": "float32", "max_batch_delay": 20}
    pack(store / "scripted.rlm", "scripted", parts / "scripted.pt", **join)
    pack(store / "exported.rlm", "exported", parts / "exported.pt2", **join)
    pack(
        store / "eager.rlm", "eager", parts / "weights.pth", files=[CODE],
        factory="slow.py:net", kind="eager", version="2.0", **join,
    )  # fmt: skip
    (store / "graph.onnx").write_bytes((parts / "graph.onnx").read_bytes())
    pack(
        store / "words.rlm", "words", parts / "words.pt", length=6, kind="scripted",
        files=[parts / "vocabulary.json", parts / "index_to_name.json"],
        handler="text_classification",
    )  # fmt: skip
    pack(
        store / "picture.rlm", "picture", parts / "picture.pt", resize=40, crop=32,
        topk=2, handler="image_classification",
    )  # fmt: skip
    slow = {"files": [CODE], "factory": "slow.py:make", "handler": "slow.py:Slow"}
    for version in ("1.0", "1.1"):
        pack(
            store / f"slow{version}.rlm", "slow", parts / "weights.pth", kind="eager",
            version=version, batch_size=4, response_timeout=2.5, queue_size=40,
            max_batch_delay=10, **slow,
        )  # fmt: skip
    names = "scripted exported eager words picture slow1.0".split()
    files = [f"{name}.rlm" for name in names] + ["graph.onnx"]
    made = Served(store, files, startup_timeout=100.0)
    made.models, made.store = models, store
    yield made
    made.stop()


def close(found, expected):
    """Whether an answer has a tensor's numbers."""
    return np.allclose(found["outputs"], expected.detach().numpy(), atol=1e-5)


def test_every_kind_of_model_answers_as_it_does_in_python(served):
    rows = rl.rand(3, 4)
    for name in ("scripted", "exported", "graph"):
        status, answer = served.predict(name, {"inputs": rows.tolist()})
        assert status == 200 and close(answer, network()(rows)), (name, answer)
    rl.manual_seed(1)
    expected = nn.Linear(4, 3)(rows)
    status, answer = served.predict("eager/2.0", {"inputs": rows.tolist()})
    assert status == 200 and close(answer, expected)


def test_tensors_come_and_go_as_numpys_files(served):
    rows = rl.rand(2, 4)
    file = io.BytesIO()
    np.save(file, rows.numpy())
    kind = "application/x-npy"
    status, body = served.predict(
        "scripted", file.getvalue(), content_type=kind, accept=kind
    )
    found = np.load(io.BytesIO(body), allow_pickle=False)
    assert status == 200 and np.allclose(found, network()(rows).detach().numpy(), 1e-5)
    file = io.BytesIO()
    np.save(file, np.array([print], dtype=object), allow_pickle=True)
    status, answer = served.predict("scripted", file.getvalue(), content_type=kind)
    assert status == 400 and "no .npy file" in answer["message"]


def test_texts_and_pictures_are_classified(served):
    words, picture = served.models
    status, answer = served.predict(
        "words", "Good, good film!", content_type="text/plain"
    )
    numbers = rl.tensor([[2, 1, 2, 4, 1, 0]])
    expected = rl.softmax(words(numbers)[0], -1)
    assert status == 200 and list(answer) in (["no", "yes"], ["yes", "no"])
    assert answer["yes"] == pytest.approx(float(expected[1]), abs=1e-5)
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (50, 60), (200, 10, 90)).save(file, "PNG")
    status, answer = served.predict(
        "picture", file.getvalue(), content_type="image/png"
    )
    color = rl.tensor([200.0, 10.0, 90.0]) / 255
    mean, std = rl.tensor([0.485, 0.456, 0.406]), rl.tensor([0.229, 0.224, 0.225])
    pixels = ((color - mean) / std)[None, :, None, None].expand(1, 3, 32, 32)
    values, places = rl.softmax(picture(pixels)[0], -1).topk(2)
    assert status == 200 and list(answer) == [str(int(p)) for p in places]
    assert list(answer.values()) == pytest.approx(values.tolist(), abs=1e-5)
    status, answer = served.predict("picture", b"no picture")
    assert status == 400 and "no picture" in answer["message"]


def test_requests_at_the_same_time_run_together_and_get_their_own(served):
    rows = [rl.rand(n % 3 + 1, 4) for n in range(24)]
    calls = [
        lambda r=r: served.predict("scripted", {"inputs": r.tolist()}) for r in rows
    ]
    for (status, answer), row in zip(served.together(calls), rows):
        assert status == 200 and close(answer, network()(row))
    _, text = served.manage("GET", "/metrics")
    line = 'rushlight_batch_size_bucket{model="scripted",version="1.0",le="1"}'
    alone = int(next(x for x in text.decode().splitlines() if line in x).split()[-1])
    count = next(
        x
        for x in text.decode().splitlines()
        if 'batch_size_count{model="scripted"' in x
    )
    assert alone < int(count.split()[-1])


def test_a_wrong_request_does_not_fail_those_beside_it(served):
    bodies = [{"inputs": [[1, 2, 3, 4]]}, {"inputs": [[1, 2]]}, {"inputs": "a"}, "{"]
    bodies += [
        {"inputs": {"data": [[1]], "dtype": "int128"}},
        {"inputs": [[1], [1, 2]]},
    ]
    calls = [lambda b=b: served.predict("scripted", b) for b in bodies]
    answers = served.together(calls)
    assert [status for status, _ in answers] == [200, 500, 400, 400, 400, 400]
    assert "shapes" in answers[1][1]["message"]
    status, answer = served.predict("slow", {"fail": True})
    assert status == 500 and "asked to fail" in answer["message"]


def test_batches_answer_each_instance(served):
    instances = [[[1, 2, 3, 4]], [[1]], [[4, 3, 2, 1]]]
    status, _, answer = served.call(
        "POST", "/batches/scripted", {"instances": instances}
    )
    assert status == 200
    assert [each["code"] for each in answer["predictions"]] == [200, 500, 200]
    last = answer["predictions"][2]["answer"]
    assert close(last, network()(rl.tensor([[4.0, 3.0, 2.0, 1.0]])))


def test_a_killed_worker_loses_no_accepted_request(served):
    (pid,) = served.pids("slow")
    begun = threading.Event()  # one has been answered, others wait

    def kill():
        begun.wait()
        os.kill(pid, signal.SIGKILL)

    def ask(number):
        answer = served.predict("slow", {"number": number, "seconds": 0.03})
        begun.set()
        return answer

    calls = [functools.partial(ask, number) for number in range(24)]
    answers = served.together([kill, *calls])[1:]
    assert [(status, answer["number"]) for status, answer in answers] == [
        (200, n) for n in range(24)
    ]
    assert any(answer["pid"] != pid for _, answer in answers)
    _, text = served.manage("GET", "/metrics")
    assert b'rushlight_worker_restarts_total{model="slow",version="1.0"}' in text


def test_a_request_that_ends_workers_fails_alone(served):
    calls = [lambda: served.predict("slow", {"end": True})]
    calls += [lambda n=n: served.predict("slow", {"number": n}) for n in range(6)]
    (status, answer), *others = served.together(calls)
    assert status == 500 and answer["type"] == "WorkerDiedException"
    assert [(status, a["number"]) for status, a in others] == [
        (200, n) for n in range(6)
    ]


def test_what_takes_too_long_is_ended_and_its_worker_replaced(served):
    status, answer = served.predict("slow", {"seconds": 30})
    assert status == 504 and "longer than 2.5 s" in answer["message"]
    status, answer = served.predict("slow", {"number": 1})
    assert status == 200 and answer["number"] == 1


def test_a_full_queue_refuses_more(served):
    calls = [lambda: served.call("POST", "/predictions/slow", {"seconds": 0.05})] * 64
    answers = served.together(calls)
    found = {status for status, _, _ in answers}
    assert found == {200, 503}
    assert {h["retry-after"] for status, h, _ in answers if status == 503} == {"1"}


def test_bodies_have_bounds(served):
    from rushlight.serve._app import Limits

    limits = Limits(2000, 0.3)
    made = Served(served.store, [], limits=limits, token="secret")
    try:
        made.server.registry.models = served.server.registry.models
        made.server.registry.defaults = served.server.registry.defaults
        status, answer = made.predict("scripted", b"1" * 3000)
        assert status == 413 and "2000 bytes" in answer["message"]
        with socket.create_connection(("127.0.0.1", made.ports[0])) as connection:
            head = b"POST /predictions/scripted HTTP/1.1\r\nhost: x\r\n"
            connection.sendall(head + b"content-length: 1000\r\n\r\n[1")
            connection.settimeout(10)
            assert connection.recv(1000).startswith(b"HTTP/1.1 408")
        assert made.manage("GET", "/models")[0] == 401
        bearer = {"authorization": "Bearer secret"}
        assert made.call("GET", "/models", management=True, **bearer)[0] == 200
    finally:
        made.server.registry.models = {}
        made.stop()


def test_versions_are_registered_scaled_chosen_and_ended(served):
    manage = served.manage
    assert manage("POST", "/models?url=slow1.0.rlm")[0] == 409
    status, answer = manage("POST", "/models?url=slow1.1.rlm&initial_workers=1")
    assert status == 200 and "Version: 1.1 registered" in answer["status"]
    assert len(manage("GET", "/models/slow/all")[1]) == 2
    status, answer = manage("PUT", "/models/slow/1.1?min_worker=2&synchronous=true")
    assert status == 200
    _, (found,) = manage("GET", "/models/slow/1.1")
    assert [w["status"] for w in found["workers"]] == ["READY", "READY"]
    assert found["batchSize"] == 4 and len({w["pid"] for w in found["workers"]}) == 2
    assert manage("DELETE", "/models/slow/1.0")[0] == 403
    assert manage("PUT", "/models/slow/1.1/set-default")[0] == 200
    assert served.predict("slow", {})[1]["pid"] in {w["pid"] for w in found["workers"]}
    assert manage("PUT", "/models/slow/1.0/set-default")[0] == 200
    assert manage("DELETE", "/models/slow/1.1")[0] == 200
    assert served.predict("slow/1.1", {})[0] == 404
    for worker in found["workers"]:
        with pytest.raises(ProcessLookupError):
            os.kill(worker["pid"], 0)


def test_wrong_management_calls_say_why(served):
    for path, status, words in (
        ("/models", 400, "model store"),
        ("/models?url=http://host/a.rlm", 400, "model store"),
        ("/models?url=../a.rlm", 400, "Relative path"),
        ("/models?url=none.rlm", 404, "not found"),
        ("/models?url=slow1.1.rlm&batch_size=x", 400, "no number"),
        ("/models?url=slow1.1.rlm&batch_size=-1", 400, "bounds"),
    ):
        found, answer = served.manage("POST", path)
        assert (found, words in answer["message"]) == (status, True), (path, answer)
    assert served.manage("GET", "/models/none")[0] == 404
    assert served.manage("PUT", "/models/slow?min_worker=-1")[0] == 400


def test_a_model_that_does_not_load_is_not_registered(served):
    bad = served.store / "bad.pt"
    bad.write_bytes(b"no archive")
    status, answer = served.manage("POST", "/models?url=bad.pt")
    assert status == 500 and answer["type"] == "WorkerFailedException"
    assert served.manage("GET", "/models/bad")[0] == 404


def test_health_and_metrics_are_told(served):
    assert served.call("GET", "/ping")[2] == {"status": "Healthy"}
    served.predict("scripted", {"inputs": [[1, 2, 3, 4]]})
    status, headers, text = served.call("GET", "/metrics", management=True)
    assert status == 200 and headers["content-type"].startswith("text/plain; version=")
    kinds = {}
    for line in text.decode().splitlines():
        if line.startswith("# TYPE"):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            float(value)
            family = name.partition("{")[0]
            stems = (
                family,
                *(family.removesuffix(e) for e in ("_bucket", "_sum", "_count")),
            )
            assert any(stem in kinds for stem in stems), line
    assert kinds["rushlight_request_seconds"] == "histogram"
    served.manage("PUT", "/models/words?min_worker=0&synchronous=true")
    assert served.call("GET", "/ping")[0] == 503
    served.manage("PUT", "/models/words?min_worker=1&synchronous=true")
    assert served.call("GET", "/ping")[0] == 200
