"""What programs ask of PyTorch's compiler by its private names is answered."""

import importlib
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight import _dynamo
from rushlight._dynamo import testing, utils
from rushlight._inductor import codecache
from rushlight._inductor.utils import fresh_cache, maybe_profile, run_and_get_code

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def steps(x):
    y = x * 2
    return (y + 1 if y.sum() > 0 else y - 1).sin()


@pytest.fixture(autouse=True)
def forgotten():
    _dynamo.reset()
    utils.counters.clear()
    yield
    _dynamo.reset_code_caches()


def test_frames_count_the_graphs_of_a_function():
    compiled = rl.compile(steps)
    for _ in range(3):
        compiled(rl.ones(3))
    frames = utils.counters["frames"]
    assert (
        frames["ok"] == frames["total"] == utils.counters["stats"]["unique_graphs"] == 2
    )


@pytest.mark.parametrize("lib", ["rushlight", "torch"])
def test_frames_of_a_backend_are_pytorchs(lib):
    torch = pytest.importorskip(lib)
    dynamo = importlib.import_module(f"{lib}._dynamo")
    dynamo.reset()
    counters = importlib.import_module(f"{lib}._dynamo.utils").counters
    counters.clear()
    counter = importlib.import_module(f"{lib}._dynamo.testing").CompileCounter()
    torch.compile(lambda x: x.sin() + 1, backend=counter)(torch.ones(3))
    assert dict(counters["frames"]) == {"total": 1, "ok": 1}
    assert (counter.frame_count, counter.op_count) == (1, 2)


def test_the_seconds_of_compiling_are_written_down():
    before = utils.calculate_time_spent()["total_wall_time"]
    compiled = rl.compile(lambda x: (x * 3).cos() + 1)
    for _ in range(3):
        compiled(rl.ones(5))
    assert utils.calculate_time_spent()["total_wall_time"] > before
    with utils.dynamo_timed("mine"):
        pass
    names, numbers = utils.compile_times(repr="csv", aggregate=True)
    assert {"mine", "entire_frame_compile"} <= set(names)
    assert all(float(one) >= 0 for one in numbers)
    text = utils.compile_times()
    assert text.startswith("TorchDynamo compilation metrics:\nFunction")


def test_a_program_of_a_function_is_called_as_it_was():
    def both(x, scale=2, *, shift):
        return {"a": x * scale, "b": x + shift}

    x = rl.arange(3.0)
    program, guards = _dynamo.export(both)(x, shift=rl.ones(3))
    found = program(x + 1, shift=rl.ones(3))
    assert rl.equal(found["a"], (x + 1) * 2) and rl.equal(found["b"], x + 2)
    assert guards == set()
    assert _dynamo.export(both, x, shift=x).graph_module.graph.find_nodes(
        op="call_function", target=rl.ops.aten.mul.Tensor
    )


def test_run_takes_programs_and_makes_none():
    compiled = rl.compile(lambda x: x * 2 + 1)
    only = _dynamo.run(compiled)
    for _ in range(3):
        assert only(rl.ones(4)).tolist() == [3.0] * 4
    assert not utils.counters["frames"]["total"]
    for _ in range(3):
        compiled(rl.ones(4))
    assert utils.counters["frames"]["total"] == 1
    with _dynamo.run():
        assert compiled(rl.ones(6)).tolist() == [3.0] * 6
    assert utils.counters["frames"]["total"] == 1


def test_texts_of_programs_come_with_the_result():
    compiled = rl.compile(lambda x, y: ((x + y) * 2).sin())
    x, y = rl.randn(8), rl.randn(8)
    result, texts = run_and_get_code(compiled, x, y)
    assert rl.equal(result, compiled(x, y))
    (text,) = texts
    names: dict = {"__name__": "program"}
    exec(compile(text, "program", "exec"), names)
    (found,) = names["call"]([x, y])
    assert rl.allclose(found, result)


def test_a_fresh_cache_is_left_as_it_was_found(monkeypatch, tmp_path):
    before = codecache.cache_dir()
    files: dict = {}
    with fresh_cache(files, dir=tmp_path):
        assert codecache.cache_dir() != before
        compiled = rl.compile(lambda x: (x * 7).tanh().sin() - 4)
        for _ in range(3):
            compiled(rl.ones(11))
    assert codecache.cache_dir() == before and not list(tmp_path.iterdir())
    assert sum(files.values()) > 0
    codecache.PyCodeCache.cache_clear()
    codecache.FxGraphCache.clear()


def test_a_block_is_profiled_where_that_is_wanted():
    with maybe_profile(False) as nothing:
        pass
    with maybe_profile(True) as profile:
        rl.ones(2) + 1
    assert nothing is None
    assert any(row.key == "aten::add" for row in profile.key_averages())


def test_results_of_training_steps_are_compared_as_pytorch_compares_them():
    torch = pytest.importorskip("torch")
    from torch._dynamo import testing as theirs

    found = []
    for lib, module in ((rl, testing), (torch, theirs)):
        model = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.BatchNorm1d(2))
        compiled = lib.compile(model, backend="eager")
        with lib.no_grad():
            for one in model.parameters():
                one.fill_(0.5)
        x = lib.arange(6.0).reshape(2, 3).requires_grad_()
        given = [x, (lib.ones(2),)]
        out = {"a": [compiled(x)], "b": lib.ones(2)}
        loss = module.reduce_to_scalar_loss(out)
        loss.backward()
        assert module.requires_bwd_pass(
            list(out.values())
        ) and not module.requires_bwd_pass([None, 1])
        *_, prediction = results = module.collect_results(compiled, out, loss, given)
        assert prediction is None
        found.append(
            [loss.item(), *(sorted(one) for one in results[2:5]), len(results)]
        )
        assert utils.bitwise_same(1, 1)
    assert found[0] == found[1]
    with pytest.raises(NotImplementedError, match="Don't know how to reduce"):
        testing.reduce_to_scalar_loss(object())


def test_small_helpers_do_what_they_say():
    assert utils.is_compile_supported("cpu") and not utils.is_compile_supported("meta")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            utils.warn_once("said once, and not twice")
    assert len(seen) == 1
    with utils.disable_cache_limit():
        assert _dynamo.config.recompile_limit > 1 << 40
    assert _dynamo.config.recompile_limit == 8
    x, y = rl.ones(3), rl.ones(3)
    _dynamo.mark_dynamic(x, 0)
    y._dynamo_weak_dynamic_indices = {0}
    utils.copy_dynamo_tensor_attributes(x, y)
    assert y._dynamo_dynamic_indices == {0}
    assert not hasattr(y, "_dynamo_weak_dynamic_indices")
    assert not utils.bitwise_same(rl.ones(2), rl.ones(2) + 1e-6)
    assert rl._disable_dynamo(len)([1]) == 1
    assert rl._inductor.cudagraph_mark_step_begin() is None
    assert _dynamo.eval_frame.is_dynamo_supported()


def test_functions_of_arrays_are_functions_of_tensors():
    torch = pytest.importorskip("torch")

    def function(x, *, scale):
        return np.sum(x * scale, axis=0), {"max": np.max(x)}

    for lib in (rl, torch):
        wrapped = lib.compiler.wrap_numpy(function)
        rows, more = lib.compile(wrapped)(
            lib.arange(6).reshape(2, 3), scale=lib.ones(3)
        )
        assert rows.tolist() == [3.0, 5.0, 7.0] and more["max"].item() == 5
        assert isinstance(more["max"], lib.Tensor)


@pytest.mark.parametrize(
    "name",
    ["_dynamo.config", "_inductor.config", "_functorch.config", "compiler.config"],
)
def test_settings_are_copied_and_have_pytorchs_defaults(name):
    pytest.importorskip("torch")
    ours = importlib.import_module(f"rushlight.{name}")
    theirs = importlib.import_module(f"torch.{name}").get_config_copy()
    found = ours.get_config_copy()
    shared = {key for key in found if key in theirs}
    assert shared and not any(key.startswith("_") for key in found)
    plain = (bool, int, str, float, type(None))
    other = {
        key: (found[key], theirs[key])
        for key in shared
        if isinstance(theirs[key], plain) and found[key] != theirs[key]
    }
    assert set(other) <= DIFFERENT, other
    found.clear()
    assert ours.get_config_copy()


# where the package is, and how many processes compile
DIFFERENT = {"base_dir", "compile_threads"}
