"""Graph modules copied, stored, moved, edited and written by users' code generators."""

import copy
import inspect
import io
import linecache
import pickle

import pytest

import rushlight as rl
from rushlight import fx
from rushlight.fx.experimental.proxy_tensor import make_fx


class Model(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = rl.nn.Linear(3, 3)

    def forward(self, x):
        return rl.relu(self.layer(x)) + 1


def saved(module):
    file = io.BytesIO()
    rl.save(module, file)
    file.seek(0)
    return rl.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "deepcopy twice": lambda module: copy.deepcopy(copy.deepcopy(module)),
    "copy": copy.copy,
    "copy of a deepcopy": lambda module: copy.copy(copy.deepcopy(module)),
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "pickle of a deepcopy": lambda m: pickle.loads(pickle.dumps(copy.deepcopy(m))),
    "file": saved,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_graph_module_is_called_edited_moved_and_loaded(copied):
    module = fx.symbolic_trace(Model())
    x = rl.randn(2, 3)
    made = copied(module)
    assert rl.equal(made(x), module(x))
    made.load_state_dict({key: t * 2 for key, t in module.state_dict().items()})
    one = copy.deepcopy(made)
    for node in one.graph.nodes:
        if node.target is rl.relu:
            node.target = rl.sigmoid
    one.recompile()
    wanted = rl.sigmoid(one.layer(x)) + 1
    assert rl.equal(one(x), wanted)
    assert rl.equal(fx.Interpreter(one).run(x), wanted)
    assert rl.equal(fx.Transformer(one).transform()(x), wanted)
    assert one.to(rl.float64)(x.double()).dtype is rl.float64
    assert made(x).dtype is rl.float32


def test_a_deepcopy_of_any_graph_module_is_as_pytorchs():
    torch = pytest.importorskip("torch")
    assert described_copies(rl, fx) == described_copies(torch, torch.fx)


def described_copies(library, fx):
    """What deep copies of graph modules have: notes, hooks, what no step reads."""

    class Part(fx.GraphModule):
        pass

    class Outer(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = library.nn.Sequential(library.nn.Linear(3, 3))
            self.register_buffer("scale", library.ones(3), persistent=False)

        def forward(self, x):
            return self.inner(x) * self.scale

    told, heard = [], []
    for kind in fx.GraphModule, Part:
        root = Outer().eval()
        module = kind(root, fx.Tracer().trace(root), "Named")
        module.unread = library.nn.Linear(2, 2)
        module.twin = module.unread.weight
        module.register_buffer("count", library.zeros(1))
        module.register_buffer("nothing", None)
        module.own = "left behind"
        module.meta.update(notes=[1], _user_preserved_attributes={"kept": 2})
        next(iter(module.graph.nodes)).meta["seen"] = [3]
        module.register_forward_hook(lambda *_: 5)
        module._register_deepcopy_hook(lambda made: heard.append(made.kept))
        holder = {"first": module, "second": module, "weight": module.twin}
        copied = copy.deepcopy(holder)
        made = copied["first"]
        first = next(iter(made.graph.nodes))
        told.append((
            made is copied["second"], made.twin is copied["weight"],
            made.unread.weight is made.twin, made.unread.weight is module.twin,
            type(made).__name__, isinstance(made, kind), sorted(made.state_dict()),
            made.training, made.inner.training, hasattr(made, "own"), made.kept,
            made.meta, made.meta["notes"] is module.meta["notes"], first.meta,
            first.meta["seen"] is next(iter(module.graph.nodes)).meta["seen"],
            "nothing" in made._buffers, module(library.ones(1, 3)),
            made(library.ones(1, 3)).shape == (1, 3), fx.GraphModule(made, made.graph).meta,
        ))  # fmt: skip
    return told, heard


def test_recorded_and_exported_modules_are_copied():
    x = rl.randn(2, 3)
    for module in (
        make_fx(lambda t: t.sin() + 1)(x),
        rl.export.export(Model(), (x,)).module(),
    ):
        assert rl.equal(copy.deepcopy(module)(x), module(x))


class Marked(fx.graph.CodeGen):
    def additional_globals(self):
        return [("MARK", 5)]

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        head = super().gen_fn_def(free_vars, maybe_return_annotation)
        return head + "\n    assert MARK == 5"


class OneList(fx.graph.CodeGen):
    def gen_fn_def(self, free_vars, maybe_return_annotation):
        names = ", ".join(free_vars)
        return f"def forward(self, given: List){maybe_return_annotation}:\n    {names} = given"

    def additional_globals(self):
        return [("List", list)]

    def process_inputs(self, *inputs):
        return inputs[0]


def test_code_generators_of_users_write_modules_and_their_copies():
    module = fx.symbolic_trace(Model())
    x = rl.randn(2, 3)
    marked = copy.deepcopy(module)
    marked.graph.set_codegen(Marked())
    marked.recompile()
    for one in marked, copy.deepcopy(marked):
        assert "MARK" in one.code
        assert rl.equal(one(x), module(x))
    pair = fx.symbolic_trace(lambda a, b: a + b)
    pair.graph.set_codegen(OneList())
    pair.recompile()
    assert rl.equal(pair([x, x]), x + x)
    assert rl.equal(fx.Interpreter(pair).run([x, x]), x + x)


@pytest.mark.parametrize(
    ("called", "refused"),
    [
        (lambda x: rl.add(x, 1), False),
        (lambda x: rl.relu(x), False),
        (lambda x: rl.relu_(x), True),
        (lambda x: rl.add(x, 1, out=x), True),
        (lambda x: rl.ops.aten.add_.Tensor(x, 1), True),
    ],
)
def test_a_tracer_refuses_calls_that_write(called, refused):
    torch = pytest.importorskip("torch")
    for library in rl, torch:
        tracer = library.fx.Tracer()
        tracer.check_mutable_operations = True
        if refused and library is rl:
            with pytest.raises(RuntimeError, match="mutable operation"):
                tracer.trace(called)
        elif not refused:
            tracer.trace(called)


def test_sources_are_their_own_beside_pytorchs():
    def recorded():
        return make_fx(lambda x: x.sin())(rl.ones(2)).forward

    number = int(recorded().__code__.co_filename.rpartition(".")[2])
    for taken in range(number + 1, number + 4):
        linecache.cache[f"<eval_with_key>.{taken}"] = 1, None, ["another's\n"], ""
    assert "aten.sin" in inspect.getsource(recorded())
