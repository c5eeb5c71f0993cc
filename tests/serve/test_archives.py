"""Archives are what was packed, or they are refused; code in them runs where it may."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import rushlight as rl
from rushlight.serve import Archive, ArchiveError, Request, open_model, pack
from rushlight.serve.handlers import TensorHandler, as_json
from tests.serve.served import CODE


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    net = rl.nn.Linear(3, 2).eval()
    rl.jit.trace(net, rl.ones(1, 3)).save(folder / "net.pt")
    return folder


@pytest.fixture
def path(parts, tmp_path):
    return pack(tmp_path / "net.rlm", "net", parts / "net.pt", join="stack")


def rewritten(path, change):
    """The archive with its files changed."""
    with zipfile.ZipFile(path) as file:
        files = {name: file.read(name) for name in file.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def manifest(**changes):
    """A change of the manifest."""

    def change(files):
        found = json.loads(files["MANIFEST.json"])
        found.update(changes)
        files["MANIFEST.json"] = json.dumps(found)

    return change


def test_an_archive_opens_to_a_handler_of_its_model(path):
    handler = open_model(path)
    requests = [Request(json.dumps([float(n)] * 3).encode()) for n in range(5)]
    answers = handler.handle(requests)
    rows = rl.stack([rl.full((3,), float(n)) for n in range(5)])
    found = np.array([json.loads(answer.body)["outputs"] for answer in answers])
    assert np.allclose(found, handler.model(rows).detach().numpy(), atol=1e-6)


def test_damaged_and_foreign_archives_are_refused_by_name(path, tmp_path):
    def damaged(files):
        files["net.pt"] = files["net.pt"][:-1] + b"?"

    def extra(files):
        files["more.py"] = "print(1)"

    for change, words in (
        (damaged, "net.pt is not what was packed"),
        (extra, "files are not those of its manifest"),
        (lambda files: files.pop("MANIFEST.json"), "is no archive"),
        (lambda files: files.update({"MANIFEST.json": "{"}), "is no archive"),
        (lambda files: files.update({"MANIFEST.json": "[]"}), "says no format"),
        (manifest(format=2), "update rushlight"),
        (manifest(kind="pickle"), "kind 'pickle'"),
        (manifest(name="../up"), "name '../up'"),
        (manifest(files={}), "is not among its files"),
        (manifest(handler="other"), "handler 'other' is none of"),
        (manifest(handler="net.py:Class"), "not run unless allowed"),
        (manifest(factory="net.py:make"), "not run unless allowed"),
    ):
        with pytest.raises(ArchiveError, match=words):
            with open(path, "rb") as file:
                copy = tmp_path / "copy.rlm"
                copy.write_bytes(file.read())
            open_model(rewritten(copy, change))
    cut = tmp_path / "cut.rlm"
    with open(path, "rb") as file:
        cut.write_bytes(file.read()[:-100])
    with pytest.raises(ArchiveError, match="cut.rlm: is no archive"):
        Archive(cut)


def test_code_runs_only_where_it_is_allowed(parts, tmp_path):
    mark = tmp_path / "ran"
    code = tmp_path / "marks.py"
    code.write_text(
        f"open({str(mark)!r}, 'w').close()\n"
        "from rushlight.serve import Handler\n"
        "class Marks(Handler):\n    pass\n"
        "def make():\n    return len\n"
    )
    for given in ({"handler": "marks.py:Marks"}, {"factory": "marks.py:make"}):
        path = pack(tmp_path / "m.rlm", "m", parts / "net.pt", files=[code], **given)
        with pytest.raises(ArchiveError, match="--allow-code"):
            open_model(path)
        assert not mark.exists()
        open_model(path, allow_code=True)
        assert mark.exists()
        mark.unlink()


def test_an_eager_models_weights_are_read_without_pickles(tmp_path):
    rl.save(rl.nn.Linear(4, 3), tmp_path / "whole.pth")
    path = pack(
        tmp_path / "eager.rlm", "eager", tmp_path / "whole.pth", kind="eager",
        factory="slow.py:net", files=[CODE],
    )  # fmt: skip
    with pytest.raises(Exception, match="weights_only|[Uu]nsupported|not allowed"):
        open_model(path, allow_code=True)


def test_samples_of_several_shapes_run_in_groups(path):
    class Shapes:
        manifest = {"files": {}}
        options = {"join": "stack"}

    seen = []

    def model(batch):
        seen.append(tuple(batch.shape))
        return {"twice": batch * 2, "rows": batch.sum(1)}

    handler = TensorHandler(Shapes, model)
    bodies = [[1, 2], [1, 2, 3], [4, 5], [7, 8, 9]]
    answers = handler.handle([Request(json.dumps(b).encode()) for b in bodies])
    assert seen == [(2, 2), (2, 3)]
    for body, answer in zip(bodies, answers):
        found = json.loads(answer.body)["outputs"]
        assert found == {"twice": [2 * n for n in body], "rows": sum(body)}


def test_infinities_are_json_that_others_read():
    body = as_json({"a": [float("inf"), float("-inf"), float("nan")]}).body
    assert json.loads(body) == {"a": ["Infinity", "-Infinity", "NaN"]}


def test_archives_and_handlers_need_nothing_of_the_servers():
    program = (
        "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
        "import rushlight.serve\n"
        "from rushlight.serve.__main__ import main\n"
        "assert main(['.']) == 2 and main(['/nowhere']) == 2"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "rushlight[serve]" in done.stderr and "no folder" in done.stderr
