"""Models quantized as graphs: PyTorch's nodes, states, losses and results."""

import copy
import importlib
import io

import numpy as np
import pytest

import rushlight as rl
from tests.quantized.test_workflows import close, on_both

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("fbgemm"),
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


def workflow(t):
    return importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")


def network(t):
    nn, F = t.nn, t.nn.functional

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.pool, self.avg = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d((1, 1))
            self.head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 5))
            self.end = nn.Sigmoid()

        def forward(self, x):
            x = F.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(x))
            x = F.relu(x + y)
            x = t.cat([x * y, x], 1)
            x = F.hardswish(self.avg(self.pool(x)))
            return self.end(self.head(t.flatten(x, 1)))

    return Network()


def static(t):
    fx, q = workflow(t), t.ao.quantization
    model, x = network(t).eval(), t.randn(4, 3, 8, 8)
    seen = fx.prepare_fx(model, q.get_default_qconfig_mapping("fbgemm"), (x,))
    for _ in range(2):
        seen(t.randn(4, 3, 8, 8))
    return seen, fx.convert_fx(copy.deepcopy(seen))  # PyTorch changes what it is given


def test_static_graphs_have_the_same_nodes_states_and_results():
    (seen, one), (theirs, two) = on_both(static)
    assert [node.name for node in seen.graph.nodes] == [
        node.name for node in theirs.graph.nodes
    ]
    assert list(seen.state_dict()) == list(theirs.state_dict())
    assert sorted(one.state_dict()) == sorted(two.state_dict())
    file = io.BytesIO()
    torch.save(two.state_dict(), file)
    file.seek(0)
    one.load_state_dict(rl.load(file))
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f")
    close(one(rl.tensor(x)), two(torch.tensor(x)))


def test_training_of_graphs_gives_the_same_losses_and_results():
    def program(t):
        fx, q = workflow(t), t.ao.quantization
        mapping = q.get_default_qat_qconfig_mapping("fbgemm")
        x = t.randn(4, 3, 8, 8)
        model = fx.prepare_qat_fx(network(t).train(), mapping, (x,))
        optimizer, losses = t.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(4):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found = fx.convert_fx(model.eval())
        return losses, found(x), sorted(found.state_dict())

    (a, x, names), (b, y, theirs) = on_both(program)
    np.testing.assert_allclose(a, b, rtol=1e-3)
    assert names == theirs
    close(x, y, 1 / 128)


def test_dynamic_graphs_and_tables_give_the_same_results():
    def program(t):
        fx, q, nn = workflow(t), t.ao.quantization, t.nn
        mapping = q.QConfigMapping().set_global(q.default_dynamic_qconfig)
        mapping.set_object_type(nn.Embedding, q.float_qparams_weight_only_qconfig)
        model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 6), nn.ReLU()).eval()
        x = t.arange(6).reshape(2, 3)
        found = fx.convert_fx(fx.prepare_fx(model, mapping, (x,)))
        return found(x), sorted(found.state_dict())

    (a, names), (b, theirs) = on_both(program)
    close(a, b)
    assert names == theirs


def test_parts_of_a_model_have_configurations_of_their_own():
    def program(t):
        fx, q = workflow(t), t.ao.quantization
        mapping = q.get_default_qconfig_mapping("fbgemm")
        mapping.set_module_name("conv2", None).set_module_name_regex("head.*2", None)
        mapping.set_object_type(t.nn.Sigmoid, None)
        mapping.set_module_name_object_type_order(
            "", t.nn.functional.hardswish, 0, None
        )
        x = t.randn(4, 3, 8, 8)
        seen = fx.prepare_fx(network(t).eval(), mapping, (x,))
        seen(x)
        found = fx.convert_fx(seen)
        kinds = {name: type(m).__name__ for name, m in found.named_modules() if name}
        return found(x), kinds

    (a, kinds), (b, theirs) = on_both(program)
    assert kinds == theirs
    close(a, b, 0.02)


def test_what_was_not_prepared_is_refused():
    fx = workflow(rl)
    for convert in (fx.convert_fx, fx.convert_to_reference_fx):
        with pytest.raises(AssertionError, match="prepare_fx"):
            convert(rl.fx.symbolic_trace(rl.nn.Linear(2, 2)))
        with pytest.raises(ValueError, match="must be a GraphModule"):
            convert(rl.nn.Linear(2, 2))


def test_reference_graphs_have_the_same_nodes_states_and_results():
    def program(t):
        seen, _ = static(t)
        found = workflow(t).convert_to_reference_fx(seen)
        return found, found(t.randn(2, 3, 8, 8))

    (one, a), (two, b) = on_both(program)
    assert [(n.name, n.op) for n in one.graph.nodes] == [
        (n.name, n.op) for n in two.graph.nodes
    ]
    assert list(one.state_dict()) == list(two.state_dict())
    assert repr(one.head) == repr(two.head)
    close(a, b, 4 / 256)  # a tie on the way is a step, and goes through what follows
    file = io.BytesIO()
    torch.save(two.state_dict(), file)
    file.seek(0)
    one.load_state_dict(rl.load(file))
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f")
    close(one(rl.tensor(x)), two(torch.tensor(x)), 4 / 256)


def test_reference_graphs_of_trained_models_round_weights_as_they_trained():
    def program(t):
        fx, q = workflow(t), t.ao.quantization
        mapping = q.get_default_qat_qconfig_mapping("fbgemm")
        x = t.randn(4, 4)
        model = t.nn.Sequential(t.nn.Linear(4, 4), t.nn.ReLU(), t.nn.Linear(4, 2))
        model = fx.prepare_qat_fx(model.train(), mapping, (x,))
        model(x)
        found = fx.convert_to_reference_fx(model.eval())
        return found(x), list(found.state_dict())

    (a, names), (b, theirs) = on_both(program)
    close(a, b, 1 / 128)
    assert names == theirs


REFERENCES = {
    "Linear": ((4, 3), (2, 4)),
    "Conv1d": ((2, 4, 3), (2, 2, 7)),
    "Conv2d": ((2, 4, 3), (2, 2, 7, 7)),
    "Conv3d": ((2, 4, 3), (2, 2, 5, 5, 5)),
    "ConvTranspose1d": ((4, 2, 3), (2, 4, 7)),
    "ConvTranspose2d": ((4, 2, 3), (2, 4, 7, 7)),
    "ConvTranspose3d": ((4, 2, 3), (2, 4, 5, 5, 5)),
}


@pytest.mark.parametrize("name", [*REFERENCES, "Embedding", "EmbeddingBag"])
def test_reference_layers_round_their_weights_as_integers_hold_them(name):
    def program(t):
        home = importlib.import_module(f"{t.__name__}.ao.nn.quantized.reference")
        sizes, shape = REFERENCES.get(name, ((9, 4), None))
        layer = getattr(t.nn, name)(*sizes)
        x = t.randn(shape) if shape else t.tensor([[1, 2], [8, 3]])
        many = layer.weight.shape[0]
        found = []
        for given in (
            {"qscheme": t.per_tensor_affine, "scale": 0.1, "zero_point": 3},
            {
                "qscheme": t.per_channel_affine, "axis": 0,
                "scale": t.arange(1, many + 1) * 0.01,
                "zero_point": t.zeros(many, dtype=t.int64),
            },
            {"qscheme": None},
        ):  # fmt: skip
            dtype = t.qint8 if given["qscheme"] else t.float32
            given = {"dtype": dtype, **given}
            made = getattr(home, name).from_float(layer, given)
            again = getattr(home, name)(*sizes, weight_qparams=given)
            again.load_state_dict(made.state_dict())
            assert again(x).equal(made(x))
            found += [made(x), made.get_weight(), repr(made), list(made.state_dict())]
        return found

    for one, two in zip(*on_both(program), strict=True):
        if isinstance(two, torch.Tensor):
            close(one, two)
        else:
            assert one == two


def test_mappings_become_dictionaries_and_back():
    q = rl.ao.quantization
    mapping = q.QConfigMapping().set_global(q.default_qconfig)
    mapping.set_object_type(rl.nn.Linear, None).set_module_name("head", None)
    again = q.QConfigMapping.from_dict(mapping.to_dict())
    assert again.to_dict() == mapping.to_dict()
    assert "head" in repr(again)
