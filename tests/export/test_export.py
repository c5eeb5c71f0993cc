"""Exported programs: what they compute, what they refuse, what is said of them."""

import copy
import io
import warnings

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import (
    AdditionalInputs,
    Dim,
    ShapesCollection,
    export,
    load,
    save,
    unflatten,
)
from rushlight.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from tests.export.programs import NAMES, programs

leaves_of = rl.utils._pytree.tree_leaves


def same(one, other):
    one, other = leaves_of(one), leaves_of(other)
    assert len(one) == len(other)
    for left, right in zip(one, other):
        if isinstance(left, rl.Tensor):
            rl.testing.assert_close(left, right)
        else:
            assert left == right


def state(module):
    return {name: one.clone() for name, one in module.state_dict().items()}


@pytest.mark.parametrize("way", ["module", "unflatten", "decomposed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_and_writes_what_its_module_does(name, way):
    module, args, kwargs = programs(rl)[name]
    if way == "decomposed":
        module.eval()  # dropout draws in another order there
    program = export(copy.deepcopy(module), args, kwargs)
    if way == "decomposed":
        program = program.run_decompositions()
        written = {str(node.target) for node in program.graph.nodes}
        assert not any(one.endswith(("_.Tensor", "_.default")) for one in written)
    made = unflatten(program) if way == "unflatten" else program.module()
    for _ in range(2):
        rl.manual_seed(3)
        wanted = module(*args, **kwargs)
        rl.manual_seed(3)
        same(made(*args, **kwargs), wanted)
    before, after = state(module), state(made)
    assert set(before) <= set(after)
    for path, tensor in before.items():
        rl.testing.assert_close(after[path], tensor)


@pytest.mark.parametrize("name", ["lenet", "block_eval", "attention", "branch", "lstm"])
def test_a_program_is_trained_as_its_module(name):
    module, args, kwargs = programs(rl)[name]
    made = export(copy.deepcopy(module), args, kwargs).module()
    grads = []
    for one in (module, made):
        loss = sum(
            leaf.square().sum()
            for leaf in leaves_of(one(*args, **kwargs))
            if isinstance(leaf, rl.Tensor) and leaf.is_floating_point()
        )
        loss.backward()
        grads.append({path: p.grad for path, p in one.named_parameters()})
    for path, grad in grads[0].items():
        rl.testing.assert_close(grads[1][path], grad)


def test_exporting_leaves_the_module_as_it_was():
    module, args, kwargs = programs(rl)["nested"]
    before, held = state(module), {name: id(one) for name, one in vars(module).items()}
    export(module, args, kwargs)
    for path, tensor in module.state_dict().items():
        assert type(tensor) is type(before[path])
        assert rl.equal(tensor, before[path])
    assert {name: id(one) for name, one in vars(module).items()} == held
    assert type(module.scale) is rl.Tensor


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.fc(x).view(x.shape[0] * 2, -1), y[: x.shape[0]] * x.shape[0]


def test_a_size_that_stays_open_may_be_any_within_its_bounds():
    batch = Dim("batch", max=16)
    module = Scaled()
    program = export(
        module,
        (rl.ones(5, 4), rl.ones(10)),
        dynamic_shapes=({0: batch}, {0: 2 * batch}),
    )
    made = program.module()
    for size in (2, 7, 16):
        args = rl.randn(size, 4), rl.randn(2 * size)
        same(made(*args), module(*args))
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] <= 16"):
        made(rl.ones(17, 4), rl.ones(34))
    with pytest.raises(AssertionError, match=r"x.size\(\)\[1\] == 4"):
        made(rl.ones(3, 5), rl.ones(6))
    with pytest.raises(AssertionError, match=r"dtype == "):
        made(rl.ones(3, 4, dtype=rl.float64), rl.ones(6))


def test_sizes_said_of_tensors_and_of_further_arguments_stay_open():
    x, y = rl.ones(5, 4), rl.ones(5)
    shapes = ShapesCollection()
    shapes[x] = {0: Dim.AUTO}
    shapes[y] = (Dim.AUTO,)
    more = AdditionalInputs()
    more.add((rl.ones(3, 4), rl.ones(3)))
    for given in (shapes, more):
        program = export(Scaled(), (x, y), dynamic_shapes=given)
        assert program.module()(rl.ones(3, 4), rl.ones(3))[0].shape == (6, 2)
    more.verify(program)


def test_suggested_fixes_can_be_taken():
    def asks(x):
        return x + 1 if x.shape[0] > 3 else x

    class Asks(nn.Module):
        def forward(self, x):
            return asks(x)

    shapes = ({0: Dim("b")},)
    with pytest.raises(rl._dynamo.exc.UserError, match="Suggested fixes") as error:
        export(Asks(), (rl.ones(5),), dynamic_shapes=shapes)
    better = refine_dynamic_shapes_from_suggested_fixes(str(error.value), shapes)
    assert export(Asks(), (rl.ones(5),), dynamic_shapes=better)


def test_a_program_that_asks_for_elements_is_refused_with_line_and_remedy():
    class Asks(nn.Module):
        def forward(self, x):
            y = x * 2
            if y.sum() > 0:  # the line that is named
                return y
            return x

    with pytest.raises(RuntimeError, match="data-dependent") as error:
        export(Asks(), (rl.ones(2),))
    assert "if y.sum() > 0:  # the line that is named" in str(error.value)
    assert "torch.cond" in str(error.value)
    assert type(error.value).__name__ == "GuardOnDataDependentSymNode"


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ([1], "UserError", "Expecting `args` to be a tuple"),
        ((object(),), "ValueError", "Unsupported input type"),
    ],
)
def test_arguments_that_cannot_be_are_refused(args, kind, text):
    with pytest.raises(Exception, match=text) as error:
        export(nn.Identity(), args)
    assert type(error.value).__name__ == kind


def test_only_modules_are_exported_and_programs_are_not_called():
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        export(abs, (rl.ones(1),))
    program = export(nn.ReLU(), (rl.ones(2),))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(rl.ones(2))
    with pytest.raises(ValueError, match="but actually got inputs with tree spec"):
        program.module()(rl.ones(2), 3)


def test_a_module_of_the_tree_can_be_changed_for_another():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    tree = unflatten(export(model, (rl.ones(1, 2),)))
    tree._modules["1"] = nn.Tanh()
    same(tree(rl.ones(1, 2)), model[0](rl.ones(1, 2)).tanh())


class Between(nn.Module):
    def forward(self, x, w):
        w = w * 1
        y = rl.cond(x.sum() > 0, lambda x: x * w, lambda x: x + w, (x,))
        total, rows = rl._higher_order_ops.scan(
            lambda c, row: (c + row * w, c), rl.zeros_like(w), y
        )
        mapped = rl._higher_order_ops.map(lambda row, z: row * z + w, rows, total)
        return mapped.sum() + total.sum()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradients_pass_through_control_flow(sign):
    made = export(Between(), (rl.ones(3, 2), rl.ones(2))).module()
    grads = []
    for module in (Between(), made):
        x = (sign * rl.arange(1.0, 7.0).reshape(3, 2)).requires_grad_()
        w = rl.tensor([0.5, 2.0], requires_grad=True)
        grads.append(rl.autograd.grad(module(x, w), [x, w]))
    same(grads[0], grads[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_control_flow_is_recorded_by_make_fx_and_mapped_by_vmap():
    def f(x):
        w = x + 1
        return rl.cond(x.sum() > 0, lambda x: x * w, lambda x: x - w, (x,))

    from rushlight.fx.experimental.proxy_tensor import make_fx

    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(f, tracing_mode=mode)(rl.ones(3))
        for x in (rl.ones(3), -rl.ones(3)):
            same(graph(x), f(x))
    rows = rl.tensor([[1.0, 2.0], [-3.0, 1.0]])
    same(rl.func.vmap(f)(rows), rl.stack([f(row) for row in rows]))


def test_branches_that_are_not_alike_are_refused():
    class Odd(nn.Module):
        def forward(self, x):
            return rl.cond(x.sum() > 0, lambda x: x * 2, lambda x: x[0], (x,))

    with pytest.raises(RuntimeError, match=r"both branches of torch\.cond"):
        export(Odd(), (rl.ones(2),))


def test_named_results_of_operators_are_named_results_of_programs():
    class Named(nn.Module):
        def forward(self, x):
            return x.max(1), rl.linalg.qr(x)

    x = rl.randn(3, 3)
    file = io.BytesIO()
    save(export(Named(), (x,)), file)
    best, factors = load(file).module()(x)
    assert (type(best), type(factors)) == tuple(map(type, Named()(x)))
    same((best, factors), Named()(x))


def test_what_looks_for_faults_of_lapack_finds_none_in_fake_tensors():
    class Solves(nn.Module):
        def forward(self, x):
            return rl.cholesky(x), rl.linalg.inv(x), rl.linalg.slogdet(x)

    x = 2 * rl.eye(3)
    with warnings.catch_warnings():  # that cholesky is deprecated is said once
        warnings.simplefilter("ignore")
        same(export(Solves(), (x,)).module()(x), Solves()(x))


def test_gradients_are_off_where_they_were_in_the_module():
    class Still(nn.Module):
        def forward(self, x):
            y = x * 2
            with rl.no_grad():
                z = y * 3 + x
            return y + z

    program = export(Still(), (rl.ones(2),))
    x = rl.ones(2, requires_grad=True)
    (grad,) = rl.autograd.grad(program.module()(x).sum(), x)
    assert grad.tolist() == [2.0, 2.0]
    names = [str(node.target) for node in program.graph.nodes]
    assert "wrap_with_set_grad_enabled" in names
