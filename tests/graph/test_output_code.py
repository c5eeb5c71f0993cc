"""A program's text runs in another interpreter, and gives the bits that the program gave."""

import ctypes
import json
import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config
from rushlight._inductor.utils import run_and_get_code
from rushlight.graph import generated
from rushlight.graph.compiled_function import Runner
from rushlight.graph.output_code import NAMES
from tests.graph.test_fusion import arguments, program

READER = """
import json, runpy, sys
import rushlight as rl
from tests.graph.test_output_code import bits
found = {}
for folder in sys.argv[1:]:
    made = runpy.run_path(folder + "/output_code.py")
    args = made["get_args"]()
    given = list(args)
    rl.manual_seed(7)
    results = made["call"](args)
    found[folder] = bits([x.untyped_storage() for x in results]), [
        bits([x.untyped_storage()]) for x in given
    ]
print(json.dumps(found))
"""


def bits(storages):
    """What tells contents of storages from others."""
    digest = blake2b(digest_size=8)
    for storage in storages:
        digest.update(ctypes.string_at(storage.data_ptr(), storage.nbytes()))
    return digest.hexdigest()


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """Has programs be written, and gives the bits that each gave: by its folder."""
    monkeypatch.setattr(config.trace, "enabled", True)
    monkeypatch.setattr(config.trace, "save_real_tensors", True)
    monkeypatch.setattr(config.trace, "debug_dir", str(tmp_path))
    found, build = {}, Runner.build

    def building(self, tape, leaf, wanted, why):
        made, storages = build(self, tape, leaf, wanted, why), list(tape.slots)
        folder = max(tmp_path.glob("*/*/*"), key=lambda path: number_of(path.name))

        def run(tape):
            rl.manual_seed(7)  # what it draws is drawn again there
            made(tape)
            if str(folder) in found:  # what it was given first is what was saved
                return
            results = [s for s, kind in zip(storages, wanted, strict=True) if kind == 2]
            given = [bits([storages[n]]) for n in made.graph.given_windows()]
            found[str(folder)] = [bits(results), given]

        run.program = made
        return run

    monkeypatch.setattr(Runner, "build", building)
    return found


def number_of(name):
    return int(name.split("__")[1].split("_")[0])


def read_again(folders):
    """What the texts in some folders give in another interpreter."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", READER, *folders],
        *(),
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def call_twice(function, make):
    compiled = rl.compile(function)
    for _ in range(2):
        compiled(*make())


def trained(model, x):
    """A whole step: its program learns, draws and writes."""
    update = rl.optim.AdamW(model.parameters(), lr=0.1)

    def step(x):
        update.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        update.step()
        return loss

    call_twice(step, lambda: [x])


def test_texts_give_the_bits_that_programs_gave(traced):
    rl.manual_seed(3)
    for seed in (3, 9, 15, 21):
        run = program(seed, 6 + seed % 25, 1 + seed % 4)
        call_twice(run, lambda seed=seed: [arguments(100 * seed)])
    x = rl.randn(2, 3, 8, 8)
    convolutions = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    call_twice(convolutions.eval().requires_grad_(False), lambda: [x])
    with rl.no_grad():
        call_twice(convolutions, lambda: [x])
        call_twice(nn.Linear(8, 5), lambda: [x])
        call_twice(attention, lambda: rl.randn(3, 2, 70, 8).unbind())
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    trained(layer, rl.randn(2, 5, 16))
    trained(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU()), x)
    texts = "".join(
        Path(f, "output_code.py").read_text(encoding="utf-8") for f in traced
    )
    for word in ("fold_norm(", "@epilogue", ".t().contiguous()", "_attention_in_steps"):
        assert word in texts
    assert read_again(traced) == traced


def attention(q, k, v):
    return (rl.bmm(q, k.transpose(1, 2)) / 2).softmax(-1).bmm(v)


def soft(x, y):
    return ((x + y) * 0.5).sigmoid() * x


def program_of(function, *args):
    """The last program of a function that was called often enough."""
    compiled = rl.compile(function)
    for _ in range(3):
        compiled(*args)
    return compiled._runner.graphs[-1]


def run_text(made, *args):
    names = {"__name__": "text"}
    exec(made.code, names)
    return names["call"](list(args))


def test_a_kernel_is_named_by_what_it_computes_and_shows_the_users_lines():
    code = program_of(soft, rl.ones(2, 3), rl.zeros(3)).code
    assert "def fused_add_mul_sigmoid_mul_0(\n    x0: torch.float32,\n" in code
    assert "in soft: return ((x + y) * 0.5).sigmoid() * x\n" in code
    assert "    # return sigmoid((x0 + x1) * x2) * x0\n" in code
    assert "buf5 = empty_strided((2, 3), (3, 1), torch.float32, 24)\n" in code
    assert "    del arg0, arg1\n" in code


def test_another_number_and_other_elements_may_be_given():
    made = program_of(soft, rl.ones(2, 3), rl.zeros(3))
    names = {"__name__": "text"}
    exec(made.code, names)
    x, y = rl.randn(2, 3), rl.randn(3)
    (found,) = names["call"]([x, y], numbers=(0.25,))
    assert rl.equal(found, ((x + y) * 0.25).sigmoid() * x)
    with pytest.raises(ValueError, match="which is more than the 8 bytes"):
        names["call"]([rl.ones(2), y])


def test_a_text_has_the_default_type_that_its_program_was_built_for():
    before = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)
    try:
        made = program_of(lambda x: x.int() / 3, rl.ones(2))
    finally:
        rl.set_default_dtype(before)
    assert run_text(made, rl.ones(2, dtype=rl.float64))[0].dtype is rl.float64


def test_the_text_of_a_program_for_an_open_size_is_for_that_size():
    compiled = rl.compile(soft, dynamic=True)
    for rows in (4, 6, 9, 9, 13, 13):
        for _ in range(2):
            compiled(rl.ones(rows, 3), rl.zeros(3))
    made = compiled._runner.graphs[-1]
    x, y = rl.randn(13, 3), rl.randn(3)
    assert rl.equal(run_text(made, x, y)[0], compiled(x, y))


def test_what_texts_import_is_there():
    assert {*generated.__all__} >= NAMES


def test_a_text_runs_by_itself_and_times_its_program(tmp_path):
    made = program_of(soft, rl.ones(2, 3), rl.zeros(3))
    (tmp_path / "text.py").write_text(made.code)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(tmp_path / "text.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 1


NETS = {
    "pooled": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        ),
        rl.randn(2, 3, 8, 8),
    ),
    "perceptron": lambda: (
        nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3)), rl.randn(4, 8),
    ),
    "encoder": lambda: (
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True),
        rl.randn(2, 5, 16),
    ),
    "recurrent": lambda: (nn.LSTM(4, 8), rl.randn(5, 2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_texts_of_training_steps_run_with_their_own_examples(name):
    """An example's elements may lie at one place, as those of a mean's gradient do."""
    model, x = NETS[name]()
    compiled = rl.compile(model)

    def step(x):
        found = compiled(x)
        found = found[0] if isinstance(found, tuple) else found
        found.square().mean().backward()

    _, texts = run_and_get_code(step, x)
    assert len(texts) == 2
    for text in texts:
        names: dict = {"__name__": "text"}
        exec(text, names)
        results = names["call"](names["get_args"]())
        assert all(isinstance(one, rl.Tensor) for one in results)


def test_logs_have_the_text(capfd):
    rl._logging.set_logs(output_code=True)
    try:
        program_of(soft, rl.ones(2, 3), rl.zeros(3))
    finally:
        rl._logging.set_logs()
    told = capfd.readouterr().err
    assert "[output_code] soft:" in told and "def call(args" in told
