"""What `onnx.export` writes: names, sizes, weights, files; and what it refuses."""

import io
import os

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("shift", rl.ones(2))

    def forward(self, x, y=None, times=2):
        made = self.fc(x) * times + self.shift
        return {"one": made, "two": made if y is None else made + y}


def sizes(info):
    return [one.dim_param or one.dim_value for one in info.type.tensor_type.shape.dim]


def test_names_of_inputs_results_and_weights_are_those_that_were_given():
    model = Named()
    program = rl.onnx.export(
        model,
        (rl.ones(4, 3),),
        kwargs={"y": rl.ones(4, 2), "times": 3},
        input_names=["left", "right"],
        output_names=["first", "second"],
        dynamic_shapes={"x": {0: Dim("rows")}, "y": {0: Dim("rows")}, "times": None},
    )
    graph = program.model_proto.graph
    assert [one.name for one in graph.input] == ["left", "right"]
    assert [one.name for one in graph.output] == ["first", "second"]
    assert {"fc.weight", "fc.bias", "shift"} <= {one.name for one in graph.initializer}
    assert [sizes(one) for one in graph.input] == [["rows", 3], ["rows", 2]]
    assert [sizes(one) for one in graph.output] == [["rows", 2]] * 2
    x, y = rl.randn(7, 3), rl.randn(7, 2)
    wanted = model(x, y, 3)
    made = program(x, y)
    assert (made[1] - wanted["two"]).abs().max() < 1e-6


def test_the_older_signature_writes_a_file_in_evaluation_mode_with_axes(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    path = tmp_path / "model.onnx"
    given = rl.onnx.export(
        model, rl.ones(1, 3), path, dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, opset_version=18,
    )  # fmt: skip
    assert given is None and model.training
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == 18
    assert [one.op_type for one in proto.graph.node] == ["Gemm"]
    assert sizes(proto.graph.input[0]) == ["batch", 3]
    assert sizes(proto.graph.output[0]) == ["batch", 2]
    x = rl.randn(5, 3)
    assert (rl.onnx.load(path)(x) - model[0](x)).abs().max() < 1e-6


def test_a_training_mode_keeps_dropout():
    file = io.BytesIO()
    mode = rl.onnx.TrainingMode.TRAINING
    rl.onnx.export(nn.Dropout(0.5), rl.ones(4), file, dynamo=False, training=mode)
    proto = onnx.load_model_from_string(file.getvalue())
    assert "Dropout" in [one.op_type for one in proto.graph.node]


@pytest.mark.parametrize("opset", range(18, 24))
def test_every_version_from_18_on_is_written_and_checked(opset):
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.Flatten()
    )
    x = rl.randn(2, 1, 5, 5)
    program = rl.onnx.export(model, (x,), opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert (program(x)[0] - model(x)).abs().max() < 1e-5
    assert (program.call_reference(x)[0] - model(x)).abs().max() < 1e-5


def test_a_version_that_is_not_known_is_refused_and_an_old_one_becomes_18():
    with pytest.raises(rl.onnx.OnnxExporterError, match="opset_version=99 is newer"):
        rl.onnx.export(nn.ReLU(), (rl.ones(1),), opset_version=99)
    with pytest.warns(rl.onnx.errors.OnnxExporterWarning, match="older than 18"):
        program = rl.onnx.export(nn.ReLU(), (rl.ones(1),), opset_version=11)
    assert program.model_proto.opset_import[0].version == 18


def test_weights_go_beside_the_model_and_files_are_whole_or_not_there(tmp_path):
    model = nn.Linear(64, 64)
    path = tmp_path / "model.onnx"
    rl.onnx.export(model, (rl.ones(1, 64),), path)
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    assert path.stat().st_size < 2000 < (tmp_path / "model.onnx.data").stat().st_size
    onnx.checker.check_model(str(path), full_check=True)
    x = rl.randn(1, 64)
    assert (rl.onnx.load(path)(x) - model(x)).abs().max() < 1e-5
    before = path.read_bytes()
    program = rl.onnx.export(model, (rl.ones(1, 64),))
    program.weights["weight"] = None  # what fails on the way leaves the file alone
    with pytest.raises(AttributeError):
        program.save(path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]


def test_weights_beyond_a_message_go_beside_the_model_by_themselves(
    tmp_path, monkeypatch
):
    from rushlight.onnx import _model, _program

    model = nn.Linear(64, 64)
    program = rl.onnx.export(model, (rl.ones(1, 64),))
    program.save(tmp_path / "small.onnx")
    assert os.listdir(tmp_path) == ["small.onnx"]
    for module in (_model, _program):
        monkeypatch.setattr(module, "LARGEST", 4096)
    program.save(tmp_path / "large.onnx")
    assert "large.onnx.data" in os.listdir(tmp_path)
    with pytest.raises(rl.onnx.OnnxExporterError, match="a message of ONNX holds 4096"):
        _ = program.model_proto
    x = rl.randn(1, 64)
    wanted = model(x)
    assert (rl.onnx.load(tmp_path / "large.onnx")(x) - wanted).abs().max() < 1e-5
    assert (program(x)[0] - wanted).abs().max() < 1e-5
    program.release()


def test_arguments_of_registered_functions_are_parsed_by_their_descriptors():
    from rushlight.onnx.symbolic_helper import parse_args

    seen = []

    @parse_args("v", "i", "is")
    def written(g, x, one, many):
        seen.append((one, many))
        return x

    assert written("graph", "value", 3.0, (1, 2)) == "value"
    assert seen == [(3, [1, 2])]
    with pytest.raises(AssertionError, match="mismatch"):
        written("graph", "value", 1, 2, 3)


def test_weights_can_be_inputs_or_left_out(tmp_path):
    model = nn.Linear(2, 2)
    program = rl.onnx.export(model, (rl.ones(1, 2),))
    for options, count in (
        ({"keep_initializers_as_inputs": True}, 2),
        ({"include_initializers": False}, 0),
    ):
        path = tmp_path / "model.onnx"
        program.save(path, **options)
        graph = onnx.load(path).graph
        assert len(graph.input) == 3 and len(graph.initializer) == count


def test_weights_are_replaced_by_those_of_a_state_dict():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    program = rl.onnx.export(one, (rl.ones(1, 2),))
    program.apply_weights(other.state_dict())
    x = rl.randn(1, 2)
    assert (program(x)[0] - other(x)).abs().max() < 1e-6
    with pytest.raises(rl.onnx.OnnxExporterError, match="weight is rushlight.float32"):
        program.apply_weights({"weight": rl.ones(3)})


def test_a_program_that_branches_and_repeats_is_control_flow_there_too():
    class Flows(nn.Module):
        def forward(self, x):
            y = rl.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))
            count, y = rl._higher_order_ops.while_loop(
                lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), (rl.tensor(0), y)
            )
            return y, count

    model = Flows()
    program = rl.onnx.export(model, (rl.ones(3),))
    kinds = {one.op_type for one in program.model_proto.graph.node}
    assert {"If", "Loop"} <= kinds
    back = rl.onnx.load(program.model_proto)
    for x in (rl.ones(3), -rl.ones(3)):
        wanted = model(x)
        for made in (program(x), back(x)):
            assert (made[0] - wanted[0]).abs().max() < 1e-6
            assert int(made[1]) == 3


def test_writes_in_place_and_open_sizes_become_values():
    class Writes(nn.Module):
        def forward(self, x):
            y = x.clone()
            y[:, 0] = 1
            y[:, 1:].mul_(2)
            n = x.shape[0]
            return y.reshape(-1)[: n * 2] + n // 2, rl.arange(n * 3 - 1)

    shapes = ({0: Dim("n", max=50)},)
    model = Writes()
    program = rl.onnx.export(model, (rl.randn(4, 3),), dynamic_shapes=shapes)
    x = rl.randn(7, 3)
    for made, wanted in zip(program(x), model(x)):
        assert made.shape == wanted.shape and (made - wanted).abs().max() < 1e-6


def test_an_operator_without_a_form_is_named_with_its_line_and_a_remedy():
    class Odd(nn.Module):
        def forward(self, x):
            return rl.linalg.svdvals(x)  # the line

    with pytest.raises(rl.onnx.errors.UnsupportedOperatorError) as refused:
        rl.onnx.export(Odd(), (rl.randn(3, 3),))
    text = str(refused.value)
    assert "aten." in text and "svd" in text
    assert "rl.linalg.svdvals(x)  # the line" in text
    assert "remedy: " in text and "custom_translation_table" in text


def test_functions_of_users_write_operators():
    def written(g, x):
        return g.op("Mul", x, g.op("Constant", value_t=rl.tensor(3.0)))

    class Odd(nn.Module):
        def forward(self, x):
            return rl.special.i0(x)

    table = {rl.ops.aten.i0.default: written}
    x = rl.ones(2)
    made = rl.onnx.export(Odd(), (x,), custom_translation_table=table)(x)[0]
    assert made.tolist() == [3.0, 3.0]
    rl.onnx.register_custom_op_symbolic("aten::i0", written, 18)
    try:
        assert rl.onnx.export(Odd(), (x,))(x)[0].tolist() == [3.0, 3.0]
    finally:
        rl.onnx.unregister_custom_op_symbolic("aten::i0", 18)
    with pytest.raises(rl.onnx.errors.UnsupportedOperatorError):
        rl.onnx.export(Odd(), (x,))
    with pytest.raises(rl.onnx.OnnxExporterError, match="must match"):
        rl.onnx.register_custom_op_symbolic("i0", written, 18)


def test_operators_of_another_domain_are_written_with_its_version():
    def written(g, x):
        return g.op("my.domain::Odd", x, alpha_f=0.5, kinds_s="yes")

    table = {rl.ops.aten.relu: written}
    program = rl.onnx.export(
        nn.ReLU(), (rl.ones(2),), custom_translation_table=table,
        custom_opsets={"my.domain": 3},
    )  # fmt: skip
    proto = program.model_proto
    assert {one.domain: one.version for one in proto.opset_import}["my.domain"] == 3
    (node,) = proto.graph.node
    assert (node.domain, node.op_type) == ("my.domain", "Odd")
    with pytest.raises(rl.onnx.OnnxLoadError, match="my.domain::Odd is not known"):
        rl.onnx.load(proto)


def test_the_export_is_known_inside_of_the_model_only():
    seen = []

    class Asks(nn.Module):
        def forward(self, x):
            seen.append(rl.onnx.is_in_onnx_export())
            return x + 1

    rl.onnx.export(Asks(), (rl.ones(1),))
    assert seen and all(seen) and not rl.onnx.is_in_onnx_export()
    with pytest.raises(rl.onnx.OnnxExporterError):
        rl.onnx.export(Asks(), (rl.ones(1),), opset_version=99)
    assert not rl.onnx.is_in_onnx_export()


def test_a_report_and_a_comparison_are_made_on_demand(tmp_path):
    program = rl.onnx.export(
        nn.Tanh(), (rl.ones(2),), verify=True, report=True, dump_exported_program=True,
        artifacts_dir=tmp_path,
    )  # fmt: skip
    assert {"onnx_export_report.md", "onnx_export.pt2"} == set(os.listdir(tmp_path))
    assert "| Tanh | 1 |" in (tmp_path / "onnx_export_report.md").read_text()
    assert program.compute_values(["tanh"], (rl.zeros(2),))[0].tolist() == [0.0, 0.0]


def test_the_signature_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    import inspect

    ours, theirs = (inspect.signature(one.onnx.export) for one in (rl, torch))
    assert list(ours.parameters) == list(theirs.parameters)
    for name, row in theirs.parameters.items():
        mine = ours.parameters[name]
        assert (
            mine.kind == row.kind
            and repr(mine.default)[-12:] == repr(row.default)[-12:]
        )
