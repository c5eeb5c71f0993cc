"""Networks exported, checked, run by ONNX Runtime at other sizes, and read back."""

import io

import pytest

import rushlight as rl
from benchmarks import models as timed
from rushlight.export import Dim
from rushlight.utils._pytree import tree_leaves
from tests.onnx import models

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def gap(ours, theirs):
    """The largest difference of two nests of results, of the same sizes."""
    pairs = list(zip(tree_leaves(ours), tree_leaves(theirs), strict=True))
    assert all(one.shape == other.shape for one, other in pairs)
    return max((one - other).abs().max().item() for one, other in pairs)


def travels(model, arguments, others, dynamic_shapes):
    """Exports, checks, runs at both sizes, and reads back."""
    program = rl.onnx.export(model, arguments, dynamic_shapes=dynamic_shapes)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    file = io.BytesIO()
    program.save(file)
    back = rl.onnx.load(io.BytesIO(file.getvalue()))
    for given in (arguments, others):
        with rl.no_grad():
            wanted = model(*given)
            assert gap(wanted, program(*given)) < 1e-5
            assert gap(wanted, back(*tree_leaves(given))) < 1e-5
    weights = {one.name for one in proto.graph.initializer}
    assert {name for name, _ in model.named_parameters()} <= weights
    return program


@pytest.mark.parametrize("name", models.MODELS)
def test_a_network_gives_its_numbers_in_onnx_runtime_and_comes_back(name):
    model, arguments, others = models.built(rl, name)
    program = travels(model, arguments, others, models.shapes(rl, name))
    dim = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0]
    assert dim.dim_param in ("batch", "length")


@pytest.mark.parametrize("name", timed.MODELS)
def test_the_models_that_are_timed_travel(name):
    rl.manual_seed(0)
    build, shape = timed.MODELS[name]
    model = build(rl).eval()
    arguments, others = (rl.randn(2, *shape),), (rl.randn(3, *shape),)
    travels(model, arguments, others, ({0: Dim("batch")},))


def test_a_length_that_stays_open_is_asked_by_no_kernel():
    rl.manual_seed(0)
    model = timed.MODELS["GPT"][0](rl).eval()
    shapes = ({0: Dim("batch"), 1: Dim("length")},)
    travels(model, (rl.randn(2, 8, 128),), (rl.randn(1, 70, 128),), shapes)


@pytest.mark.parametrize(
    "name", ["ResNet", "BERT", "LSTM", "GRU", "UNet", "GPT with a cache"]
)
def test_files_of_pytorch_run_here_with_its_numbers(name, tmp_path):
    torch = pytest.importorskip("torch")
    model, arguments, _ = models.built(torch, name)
    path = tmp_path / "model.onnx"
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its deprecated exporter
        torch.onnx.export(model, arguments, path, dynamo=False, opset_version=17)
    given = [rl.from_numpy(one.numpy()) for one in tree_leaves(arguments)]
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(*arguments))
    made = tree_leaves(rl.onnx.load(path)(*given))
    assert len(made) == len(wanted)
    for ours, theirs in zip(made, wanted):
        assert (ours - rl.from_numpy(theirs.numpy())).abs().max() < 1e-5
