"""Files that are wrong, hostile or newer: an error that names file, node and remedy."""

import io
import os

import pytest

import rushlight as rl
from rushlight import nn

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture
def saved(tmp_path):
    """A small model in a file with its weights beside it."""
    path = tmp_path / "model.onnx"
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    rl.onnx.export(model, (rl.ones(2, 32),), path)
    return path


def written(path, nodes, inputs=1, initializers=(), opset=20, ir=9, sizes=(2, 3)):
    """A file of these nodes."""
    given = [
        helper.make_tensor_value_info(f"x{at}", TensorProto.FLOAT, list(sizes))
        for at in range(inputs)
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", given, [out], list(initializers))
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir
    )
    path.write_bytes(proto.SerializeToString())
    return path


def refused(path, *words):
    with pytest.raises(rl.onnx.OnnxLoadError) as error:
        rl.onnx.load(path)
    text = str(error.value)
    assert str(path) in text
    assert all(word in text for word in words), text
    return text


def test_a_truncated_file_is_refused_at_any_length(saved):
    whole = saved.read_bytes()
    for length in range(0, len(whole) - 1, max(len(whole) // 40, 1)):
        saved.write_bytes(whole[:length])
        try:
            rl.onnx.load(saved)
        except rl.onnx.OnnxLoadError as error:
            assert str(saved) in str(error)
        else:  # what was cut off were notes
            assert length > len(whole) - 200


def test_bytes_that_are_changed_give_an_error_or_a_model(saved):
    whole = bytearray(saved.read_bytes())
    refusals = 0
    for at in range(0, len(whole), 7):
        made = bytearray(whole)
        made[at] ^= 0xFF
        saved.write_bytes(bytes(made))
        try:
            rl.onnx.load(saved)
        except rl.onnx.OnnxLoadError:
            refusals += 1
    assert refusals


def test_an_unknown_operator_is_named_with_its_node(tmp_path):
    node = helper.make_node("Nonsense", ["x0"], ["y"], name="odd")
    text = refused(
        written(tmp_path / "m.onnx", [node]), "'odd' (Nonsense)", "not known"
    )
    assert "remedy: " in text


def test_newer_versions_are_refused_with_a_remedy(tmp_path):
    node = helper.make_node("Relu", ["x0"], ["y"])
    for options, words in (
        ({"opset": 999}, "version 999 of ONNX's operators"),
        ({"ir": 999}, "IR version 999 is newer"),
        ({"opset": 3}, "version 3 of ONNX's operators"),
    ):
        path = written(tmp_path / "m.onnx", [node], **options)
        assert "remedy: " in refused(path, words)


def test_a_value_that_nothing_gives_is_named(tmp_path):
    node = helper.make_node("Add", ["x0", "nowhere"], ["y"], name="sum")
    refused(written(tmp_path / "m.onnx", [node]), "'sum' (Add)", "'nowhere'")


def test_a_node_that_fails_is_named_with_the_file_and_a_remedy(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x0"], ["r"], name="first"),
        helper.make_node("MatMul", ["r", "x1"], ["y"], name="product"),
    ]
    path = written(tmp_path / "m.onnx", nodes, inputs=2)
    model = rl.onnx.load(path)
    with pytest.raises(rl.onnx.OnnxLoadError) as error:
        model(rl.ones(2, 3), rl.ones(2, 3))
    text = str(error.value)
    assert str(path) in text and "'product' (MatMul)" in text and "remedy: " in text


def test_an_input_of_other_sizes_or_types_is_named(tmp_path):
    node = helper.make_node("Relu", ["x0"], ["y"])
    path = written(tmp_path / "m.onnx", [node])
    model = rl.onnx.load(path)
    for given, words in (
        (rl.ones(2, 4), "[2, 3]"),
        (rl.ones(2, 3).double(), "float32"),
    ):
        with pytest.raises(rl.onnx.OnnxLoadError) as error:
            model(given)
        assert "input 'x0'" in str(error.value) and words in str(error.value)
    assert rl.onnx.load(path, strict=False)(rl.ones(2, 4)).shape == (2, 4)


def test_weights_whose_bytes_are_not_their_sizes_are_refused(tmp_path):
    node = helper.make_node("Add", ["x0", "w"], ["y"])
    for sizes, raw in (
        ([2**20, 2**19], b"0000"),
        ([3], b"00"),
        ([-1], b""),
        ([2**62], b""),
    ):
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, raw_data=raw)
        weight.dims.extend(sizes)
        refused(
            written(tmp_path / "m.onnx", [node], initializers=[weight]), "weight 'w'"
        )
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT)
    weight.dims.extend([1000, 1000, 1000])
    refused(written(tmp_path / "m.onnx", [node], initializers=[weight]), "0 numbers")


@pytest.mark.parametrize(
    "location",
    ["../secret", "/etc/hostname", "link", "sub/../../secret", "", ".", "missing"],
)
def test_weights_outside_of_the_folder_are_never_read(tmp_path, location):
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    os.symlink(tmp_path / "secret", folder / "link")
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT)
    weight.dims.extend([16])
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", location
    node = helper.make_node("Add", ["x0", "w"], ["y"])
    path = written(folder / "m.onnx", [node], initializers=[weight], sizes=(16,))
    assert "remedy: " in refused(path, "weight 'w'")


def test_a_part_of_the_weights_that_is_beyond_their_file_is_refused(saved):
    data = saved.with_name("model.onnx.data")
    data.write_bytes(data.read_bytes()[:-8])
    refused(saved, "model.onnx.data", "ends at")
    data.unlink()
    refused(saved, "model.onnx.data")


def test_names_in_a_file_are_never_code(tmp_path):
    evil = '__import__("os").system("touch pwned")'
    weight = numpy_helper.from_array(rl.ones(2, 3).numpy(), f"{evil}.w\n;x")
    nodes = [
        helper.make_node("Add", ["x0", weight.name], [evil], name=evil),
        helper.make_node("Pad", [evil, "p"], ["y"], mode='constant");evil("'),
    ]
    pads = numpy_helper.from_array(rl.zeros(4, dtype=rl.int64).numpy(), "p")
    path = written(tmp_path / "m.onnx", nodes, initializers=[weight, pads])
    before = set(os.listdir("."))
    model = rl.onnx.load(path)
    with pytest.raises(rl.onnx.OnnxLoadError, match="Pad"):
        model(rl.ones(2, 3))
    assert set(os.listdir(".")) == before
    assert "system" not in model.code.replace("_system_", "")


@pytest.mark.parametrize(
    "name", ["mode', evil(), x='", "lambda", "opset", "evil()", "a=b"]
)
def test_attributes_that_an_operator_has_not_are_refused(tmp_path, name):
    node = helper.make_node("Relu", ["x0"], ["y"], name="first")
    node.attribute.append(helper.make_attribute(name, 1))
    text = refused(written(tmp_path / "m.onnx", [node]), "'first' (Relu)", "attribute")
    assert "remedy: " in text


def test_a_function_that_calls_itself_is_refused(tmp_path):
    inner = helper.make_node("Again", ["a"], ["b"], domain="own")
    function = helper.make_function(
        "own", "Again", ["a"], ["b"], [inner], [helper.make_opsetid("own", 1)]
    )
    node = helper.make_node("Again", ["x0"], ["y"], domain="own")
    x = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    proto = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)],
        functions=[function],
        ir_version=9,
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    refused(path, "Again", "calls itself")


def test_functions_of_a_model_are_run_with_their_attributes(tmp_path):
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    attribute = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1)
    inner.attribute.append(attribute)
    function = helper.make_function(
        "own", "Leak", ["a"], ["b"], [inner], [helper.make_opsetid("", 20)], ["slope"]
    )
    node = helper.make_node("Leak", ["x0"], ["y"], domain="own", slope=0.5)
    x = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    proto = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)],
        functions=[function],
        ir_version=9,
    )
    assert rl.onnx.load(proto)(rl.tensor([-2.0, 2.0])).tolist() == [-1.0, 2.0]


def test_a_model_that_was_read_can_be_trained_saved_and_exported_again(saved, tmp_path):
    model = rl.onnx.load(saved)
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    x = rl.randn(2, 32)
    model(x).sum().backward()
    assert model.get_parameter("0.weight").grad is not None
    again = rl.onnx.export(model, (x,))
    with rl.no_grad():
        assert (again.call_reference(x)[0] - model(x)).abs().max() < 1e-6


def test_a_network_with_batch_norm_that_was_read_runs_and_trains(tmp_path):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    x = rl.randn(2, 1, 5, 5)
    model(x)
    rl.onnx.export(model, (x,), tmp_path / "norm.onnx")
    read = rl.onnx.load(tmp_path / "norm.onnx")
    result = read(x)
    rl.testing.assert_close(result, model(x))
    result.sum().backward()
    assert {name for name, _ in read.named_parameters()} == {
        "0.weight", "0.bias", "1.weight", "1.bias"
    }  # fmt: skip
    assert {name for name, _ in read.named_buffers()} == {
        "1.running_mean", "1.running_var"
    }  # fmt: skip
    assert all(each.grad is not None for each in read.parameters())


def test_what_an_operator_needs_does_not_become_a_weight():
    """Group norm's ones and zeros stay constants when a file is read."""
    model = rl.nn.Sequential(rl.nn.Conv2d(3, 8, 3), rl.nn.GroupNorm(2, 8))
    file = io.BytesIO()
    rl.onnx.export(model, (rl.randn(1, 3, 8, 8),), file)
    back = rl.onnx.load(io.BytesIO(file.getvalue()))
    assert {n for n, _ in back.named_parameters()} == {
        n for n, _ in model.named_parameters()
    }
