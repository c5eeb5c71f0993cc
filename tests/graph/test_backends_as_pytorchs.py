"""Settings, limits and errors of compiled functions, each asked of PyTorch, too."""

import importlib
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")


class Counting:
    """A backend that keeps what it was given."""

    def __init__(self):
        self.given = []

    def __call__(self, graph, inputs):
        self.given.append((graph, [type(one).__name__ for one in inputs]))
        return graph.forward


def fails(graph, inputs):
    raise ValueError("no")


def broken(lib, how):
    def program(x):
        y = x + 1
        lib._dynamo.graph_break()
        return y * 2

    return lib.compile(program, **how)(lib.ones(2)).tolist()


def suppressed(lib):
    with lib._dynamo.config.patch(suppress_errors=True):
        return lib.compile(lambda x: x * 2, backend=fails)(lib.ones(2)).tolist()


def limited(lib, fullgraph):
    backend = Counting()
    how = {"backend": backend, "fullgraph": fullgraph, "dynamic": False}
    with lib._dynamo.config.patch(recompile_limit=3):
        compiled = lib.compile(lambda x: x * 2, **how)
        for size in range(2, 8):
            compiled(lib.ones(size))
    return len(backend.given)


def static(lib):
    backend = Counting()
    with lib._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled = lib.compile(lambda x: x * 2, backend=backend)
        for size in (2, 3, 4):
            compiled(lib.ones(size))
    return [kinds for _, kinds in backend.given]


def refused(lib):
    with lib._dynamo.config.patch(error_on_recompile=True):
        compiled = lib.compile(lambda x: x * 2, backend="eager")
        for size in (2, 3):
            compiled(lib.ones(size))


def counted(lib):
    lib._dynamo.utils.counters.clear()
    broken(lib, {"backend": "eager"})
    return dict(lib._dynamo.utils.counters["stats"])


def marked(lib, dims, mark="mark_dynamic"):
    backend = Counting()
    compiled = lib.compile(lambda x: x * 2, backend=backend)
    for size in (4, 6):
        x = lib.ones(size, 3)
        for dim in dims:
            getattr(lib._dynamo, mark)(x, dim)
        compiled(x)
    return [kinds for _, kinds in backend.given]


def changed(lib):
    """The function that a backend gives runs in the first call, too."""
    calls = []

    def backend(graph, inputs):
        def run(*args):
            calls.append(1)
            return [one + 1 for one in graph(*args)]

        return run

    compiled = lib.compile(lambda x: x * 2, backend=backend)
    return [compiled(lib.ones(2)).tolist() for _ in range(2)], len(calls)


def too_few(lib):
    compiled = lib.compile(
        lambda x: x * 2, backend=lambda graph, inputs: lambda *args: ()
    )
    compiled(lib.ones(2))


def decomposed(lib):
    seen = []
    wrapped = importlib.import_module(f"{lib.__name__}._functorch.aot_autograd")

    def forward(graph, inputs):
        nodes = graph.graph.nodes
        seen.extend(n.target.__name__ for n in nodes if n.op == "call_function")
        return wrapped.make_boxed_func(graph.forward)

    backend = lib._dynamo.backends.common.aot_autograd(fw_compiler=forward)
    with lib.no_grad():
        lib.compile(lib.nn.Linear(3, 2), backend=backend)(lib.ones(2, 3))
    return seen


def doubly(lib):
    for _ in range(2):
        lib._dynamo.register_backend(lambda graph, inputs: graph, name="twice_named")


def tagged(lib):
    lib._dynamo.register_backend(
        lambda *given: None, name="mine_to_debug", tags=["debug"]
    )
    listed = lib._dynamo.list_backends
    return ["mine_to_debug" in names for names in (listed(), listed(()), listed(None))] + [
        {"eager", "aot_eager"} <= set(listed(None)), "eager" in listed()
    ]  # fmt: skip


def aliased(lib):
    config = lib._dynamo.config
    with config.patch(cache_size_limit=3):
        return config.recompile_limit, config.cache_size_limit


def unknown(lib, module):
    importlib.import_module(f"{lib.__name__}.{module}").no_such_name = 1


PROGRAMS = {
    "graph_break under fullgraph": lambda lib: broken(
        lib, {"fullgraph": True, "backend": "eager"}
    ),
    "graph_break under optimize_assert": lambda lib: lib._dynamo.optimize_assert("eager")(
        lambda: lib._dynamo.graph_break()
    )(),
    "a backend that fails": lambda lib: lib.compile(lambda x: x * 2, backend=fails)(
        lib.ones(2)
    ),
    "errors suppressed": suppressed,
    "a limit of programs": lambda lib: limited(lib, False),
    "a limit of programs of one graph": lambda lib: limited(lib, True),
    "sizes that stay": static,
    "no second program": refused,
    "counters": counted,
    "a marked size": lambda lib: marked(lib, [0]),
    "a mark beyond the dimensions": lambda lib: marked(lib, [5]),
    "sizes marked as static": lambda lib: marked(lib, [0, 1], "mark_static"),
    "sizes that may change": lambda lib: marked(lib, [0], "maybe_mark_dynamic"),
    "results of the first call": changed,
    "too few results": too_few,
    "a composed operator": decomposed,
    "a name twice": doubly,
    "tags": tagged,
    "an older name": aliased,
    **{
        f"unknown names in {module}": lambda lib, module=module: unknown(lib, module)
        for module in (
            "_dynamo.config", "_inductor.config", "_functorch.config", "compiler.config",
        )
    },
}  # fmt: skip


def ended(program, lib):
    """What a program gives, or the first line of its error, without the library's name."""
    lib._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(lib)
        except Exception as error:
            line = str(error).partition("\n")[0]
            return type(error).__name__, line.replace("rushlight", "torch")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_compiled_functions_keep_pytorchs_settings_limits_and_errors(program):
    assert ended(program, rushlight) == ended(program, torch)
