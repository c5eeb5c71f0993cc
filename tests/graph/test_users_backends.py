"""Functions as backends of ``compile``: in training, after breaks, and printing what they get."""

import math

import pytest

import rushlight as rl

try:
    import torch
    import torch._dynamo.testing
except ImportError:
    torch = None


def gives_itself(module, examples):
    return module


def gives_forward(module, examples):
    return module.forward


def gives_its_own(module, examples):
    def run(*args):
        return module(*args)

    return run


def prints(module, examples):
    assert [str(one) for one in examples]
    assert (
        module.code
        and repr(examples)
        and sum(one.sum().item() for one in examples) != ""
    )
    return module


BACKENDS = [gives_itself, gives_forward, gives_its_own, prints]


def losses(backend):
    rl.manual_seed(0)
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.Tanh(), rl.nn.Linear(4, 1))
    called = model if backend is None else rl.compile(model, backend=backend)
    optimizer = rl.optim.SGD(model.parameters(), 0.1)
    found = []
    for number in range(5):
        optimizer.zero_grad()
        loss = (called(rl.ones(4, 3) * number) - 1).pow(2).sum()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.__name__)
def test_models_train_through_a_users_backend(backend):
    assert losses(backend) == pytest.approx(losses(None), rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.__name__)
def test_a_users_backend_goes_on_after_a_break(backend):
    def program(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y.sin()

    compiled = rl.compile(program, backend=backend)
    for value in (1.0, 1.0, -1.0, 1.0, -1.0):
        x = rl.full((3,), value)
        assert rl.equal(compiled(x), program(x))


def test_a_backend_prints_its_graph_with_the_programs_lines():
    shown = []

    def backend(graph, inputs):
        shown.append(graph.print_readable(print_output=False))
        return graph.forward

    recorded = rl.compile(lambda x: (x * 2).sin(), backend=backend)
    for _ in range(3):
        recorded(rl.ones(2))
    assert shown and f"# File: {__file__}:" in shown[0]


# -- beside PyTorch --------------------------------------------------------------------

LIBRARIES = [rl] if torch is None else [torch, rl]


def names(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op[:4] == "call"]


def test_a_function_is_called_once_for_a_graph_and_once_more_for_other_sizes():
    for lib in LIBRARIES:
        lib._dynamo.reset()
        counter = lib._dynamo.testing.CompileCounter()
        compiled = lib.compile(lambda x: x * 2 + 1, backend=counter)
        for size in (2, 3, 4, 5):
            assert compiled(lib.ones(size)).tolist() == [3.0] * size
        assert (counter.frame_count, counter.op_count) == (2, 4)


def test_a_second_call_for_a_graph_has_sizes_marked_as_dynamic():
    marks = []

    def backend(graph, inputs):
        marks.append([getattr(one, "_dynamo_dynamic_indices", None) for one in inputs])
        return graph.forward

    compiled = rl.compile(lambda x, y: x + y, backend=backend)
    for size in (2, 3, 4):
        compiled(rl.ones(size, 5), rl.ones(5))
    assert marks == [[None, None], [None, {0}, None]]  # a size comes before tensors
    static = rl.compile(lambda x: x + 1, backend=backend, dynamic=False)
    for size in (2, 3, 4):
        static(rl.ones(size))
    assert len(marks) == 5


def test_a_function_gets_forward_graphs_alone_and_models_train():
    for lib in LIBRARIES:
        lib._dynamo.reset()
        graphs = []

        def backend(graph, inputs, graphs=graphs):
            graphs.append(graph)
            return graph.forward

        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU())
        compiled = lib.compile(model, backend=backend)
        for _ in range(3):
            compiled(lib.ones(2, 3)).sum().backward()
        assert len(graphs) == 1 and len(names(graphs[0])) == 2
        assert model[0].weight.grad is not None


def test_views_are_views_in_graphs():
    def views(x):
        a, b = (x * 2).t().split(2)
        return a[1:].reshape(-1).sin() + b.unsqueeze(0).expand(1, 2, 3)[0, 0, 0]

    backend = rl._dynamo.testing.EagerAndRecordGraphs()
    compiled = rl.compile(views, backend=backend)
    x = rl.randn(3, 4)
    for _ in range(3):
        assert rl.equal(compiled(x), views(x))
    (graph,) = backend.graphs
    assert "aten.as_strided.default" not in names(graph)
    assert {"aten.t.default", "aten.split.Tensor", "aten.slice.Tensor"} <= {
        *names(graph)
    }


def test_a_view_that_reads_less_of_another_tensor_is_not_read_beyond():
    def first_rows(x):
        return x[:2].exp()

    backend = rl._dynamo.testing.EagerAndRecordGraphs()
    compiled = rl.compile(first_rows, backend=backend)
    for rows in (4, 6, 3, 2, 9):
        x = rl.randn(rows, 3)
        for _ in range(2):
            assert rl.equal(compiled(x), first_rows(x))
    assert len(backend.graphs) <= 3


def test_compilers_of_forward_and_backward_graphs_get_pytorchs_operators():
    found = []
    for lib in LIBRARIES:
        lib._dynamo.reset()
        seen = {}
        if lib is rl:
            from rushlight._dynamo.backends.common import aot_autograd
            from rushlight.functorch.compile import make_boxed_func
        else:
            from functorch.compile import make_boxed_func
            from torch._dynamo.backends.common import aot_autograd

        def compiler(name, seen=seen, boxed=make_boxed_func):
            def compile_graph(graph, inputs):
                seen[name] = sorted(names(graph)), len(inputs)
                return boxed(graph.forward)

            return compile_graph

        backend = aot_autograd(fw_compiler=compiler("fw"), bw_compiler=compiler("bw"))
        compiled = lib.compile(lambda x: (x * 2).sin().t().sum(), backend=backend)
        x = lib.ones(2, 3, requires_grad=True)
        compiled(x).backward()
        found.append((seen, x.grad.flatten().tolist()))
    assert [one[0] for one in found] == [found[0][0]] * len(found)
    assert found[-1][1] == pytest.approx([2 * math.cos(2)] * 6)


def test_functions_are_given_to_compilers_and_operators_are_decomposed():
    from rushlight.functorch.compile import aot_function, nop

    seen = []

    def compiler(graph, inputs):
        seen.append(names(graph))
        return graph

    table = {rl.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    silu = aot_function(rl.nn.functional.silu, compiler, decompositions=table)
    x = rl.randn(3, requires_grad=True)
    assert rl.allclose(silu(x), rl.nn.functional.silu(x))
    assert seen[0] == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert rl.equal(aot_function(lambda x: x.sin(), nop)(x), x.sin())


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


@pytest.mark.parametrize("stance", STANCES)
def test_stances_say_what_happens_to_what_was_not_compiled(stance):
    rows = []
    for lib in LIBRARIES:
        lib._dynamo.reset()
        counter = lib._dynamo.testing.CompileCounter()
        compiled = lib.compile(lambda x: x * 2, backend=counter)
        row = []

        def call(x, lib=lib, counter=counter, compiled=compiled, row=row):
            try:
                with lib.compiler.set_stance(stance):
                    compiled(x)
            except RuntimeError as error:
                row.append(str(error).partition(".")[0])
            row.append(counter.frame_count)

        call(lib.ones(2))
        compiled(lib.ones(2))
        row.append(counter.frame_count)
        call(lib.ones(2))
        call(lib.ones(2, 2))
        rows.append(row)
    assert rows == [rows[0]] * len(rows)


def test_a_first_call_is_eager_where_the_stance_says_so_and_backends_are_replaced():
    counter = rl._dynamo.testing.CompileCounter()
    compiled = rl.compile(lambda x: x * 2, backend=counter)
    with rl.compiler.set_stance("eager_then_compile"):
        counts = [(compiled(rl.ones(2)), counter.frame_count)[1] for _ in range(2)]
    assert counts == [0, 1]
    other = rl._dynamo.testing.CompileCounter()
    with rl.compiler.set_stance(force_backend=other):
        compiled(rl.ones(2))
    with rl.compiler.set_stance(force_backend="eager"):
        compiled(rl.ones(3))
    assert (counter.frame_count, other.frame_count) == (1, 1)
    for lib in LIBRARIES:
        with pytest.raises(RuntimeError, match="cannot have force_backend set"):
            lib.compiler.set_stance("force_eager", force_backend="eager")


def test_unknown_backends_are_refused_by_pytorchs_error():
    for lib in LIBRARIES:
        with pytest.raises(
            lib._dynamo.exc.InvalidBackend, match="Invalid backend: 'nope'"
        ):
            lib.compile(lambda x: x, backend="nope")(lib.ones(1))


def test_errors_of_backends_name_the_backend():
    def fails(graph, inputs):
        raise ValueError("mine")

    for lib in LIBRARIES:
        lib._dynamo.reset()
        with pytest.raises(lib._dynamo.exc.BackendCompilerFailed) as error:
            lib.compile(lambda x: x * 2, backend=fails)(lib.ones(1))
        text = str(error.value)
        assert text.startswith("backend='fails' raised:\nValueError: mine")
        assert isinstance(error.value.inner_exception, ValueError)


def test_a_backend_is_the_one_where_none_is_given():
    counter = rl._dynamo.testing.CompileCounter()
    for lib in LIBRARIES:
        assert lib.compiler.get_default_backend() == "inductor"
    try:
        rl.compiler.set_default_backend(counter)
        assert rl.compile(lambda x: x * 2)(rl.ones(1)).item() == 2
    finally:
        rl.compiler.set_default_backend(None)
    assert counter.frame_count == 1
    with pytest.raises(rl._dynamo.exc.InvalidBackend):
        rl.compiler.set_default_backend("nope")


def test_guards_are_kept_by_functions_as_in_pytorch():
    class Guard:
        def __init__(self, kind, value, is_global):
            self.guard_type, self.value, self.is_global = kind, value, is_global

    def guards(lib):
        weight = lib.nn.Parameter(lib.ones(1))
        kinds = "GLOBAL_STATE", "SHAPE_ENV", "TENSOR_MATCH", "ID_MATCH"
        values = weight, lib.ones(1)
        return [Guard(k, v, g) for k in kinds for v in values for g in (True, False)]

    for name in (
        "keep_portable_guards_unsafe",
        "keep_tensor_guards_unsafe",
        "skip_all_guards_unsafe",
        "skip_guard_on_globals_unsafe",
    ):
        kept = [getattr(lib.compiler, name)(guards(lib)) for lib in LIBRARIES]
        assert kept == [kept[0]] * len(kept), name


def test_passes_of_ones_own_change_graphs():
    from rushlight._inductor import config

    def double(graph):
        for node in graph.nodes:
            if node.op == "call_function" and "mul" in str(node.target):
                node.args = (node.args[0], 4)

    with config.patch(post_grad_custom_post_pass=double):
        compiled = rl.compile(lambda x: (x * 2).abs())
    compiled(rl.ones(2))  # the call that is noted runs as it is
    assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]


def test_programs_that_only_set_settings_run():
    from rushlight._functorch import config as functorch_config
    from rushlight._inductor import config

    with config.patch({"triton.cudagraphs": True, "cpp.threads": 2}):
        assert config.triton.cudagraphs and config.cpp.threads == 2
    assert not config.triton.cudagraphs
    with functorch_config.patch(donated_buffer=True):
        assert functorch_config.donated_buffer
    with rl._dynamo.config.patch(cache_size_limit=64, error_on_recompile=False):
        assert rl.compile(lambda x: x * 2)(rl.ones(1)).item() == 2


def test_graphs_compiled_alone_are_saved_and_loaded(tmp_path):
    from rushlight.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: (x * 2).sin())(rl.ones(3))
    x = rl.randn(3)
    assert rl.allclose(rl._inductor.compile(graph, [x])(x), (x * 2).sin())
    artifact = rl._inductor.standalone_compile(graph, [x])
    for form, name in (("unpacked", "folder"), ("binary", "file.bin")):
        artifact.save(path=tmp_path / name, format=form)
        loaded = type(artifact).load(path=tmp_path / name, format=form)
        assert rl.allclose(loaded(x), artifact(x))
    with pytest.raises(RuntimeError, match="unpacked"):
        artifact.save(path=tmp_path / "x", format="zip")


def test_kernels_are_packed_and_taken_into_a_cache():
    compiled = rl.compile(lambda x: (x * 2).sin() + 1)
    for _ in range(2):
        compiled(rl.ones(3))
    data, info = rl.compiler.save_cache_artifacts()
    assert info.inductor_artifacts and not info.empty()
    taken = rl.compiler.load_cache_artifacts(data)
    assert {*info.inductor_artifacts} == {*taken.inductor_artifacts}
    broken = bytearray(data)
    broken[-40] ^= 255
    fewer = rl.compiler.load_cache_artifacts(bytes(broken))
    assert len(fewer.inductor_artifacts) == len(taken.inductor_artifacts) - 1
    assert rl.compiler.load_cache_artifacts(b"nothing") is None
