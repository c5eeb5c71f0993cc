"""What a run writes is what PyTorch's writer writes, as TensorBoard reads it."""

import os

import numpy as np
import pytest

import rushlight as rl

pytest.importorskip("tensorboard", reason="an extra")
pytestmark = pytest.mark.filterwarnings("ignore")


def library(name):
    if name == "ours":
        from rushlight.utils import tensorboard

        return rl, tensorboard.SummaryWriter
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    from torch.utils.tensorboard import SummaryWriter

    return torch, SummaryWriter


def numbers(t, sizes=(2, 3, 4, 5)):
    count = int(np.prod(sizes))
    return (t.arange(count) / count).reshape(sizes)


WRITES = {
    "scalar": lambda w, t: [w.add_scalar("a/b", i * 0.5, i) for i in range(3)],
    "scalar of a tensor": lambda w, t: w.add_scalar("x", t.tensor([2.5])),
    "scalar of new style": lambda w, t: w.add_scalar("x", 1.5, 2, new_style=True),
    "double": lambda w, t: w.add_scalar(
        "x", 0.1, 2, new_style=True, double_precision=True
    ),
    "scalars": lambda w, t: w.add_scalars("m/n", {"a": 1, "b": 2.0}, 3),
    "histogram": lambda w, t: w.add_histogram("h", numbers(t) - 0.3, 1),
    "histogram of few": lambda w, t: w.add_histogram("h", numbers(t), max_bins=50),
    "histogram by numpy": lambda w, t: w.add_histogram("h", numbers(t), bins="auto"),
    "histogram of zeros": lambda w, t: w.add_histogram("h", t.zeros(4)),
    "raw histogram": lambda w, t: w.add_histogram_raw("h", 0, 1, 2, 1, 1, [1, 2], [1, 1]),
    "image": lambda w, t: w.add_image("i", numbers(t, (3, 4, 5))),
    "grey image": lambda w, t: w.add_image("i", numbers(t, (4, 5)), dataformats="HW"),
    "bytes": lambda w, t: w.add_image("i", t.ones(4, 5, 3).mul(9).to(t.uint8),
                                      dataformats="HWC"),
    "images": lambda w, t: w.add_images("i", numbers(t, (11, 1, 3, 4))),
    "points": lambda w, t: w.add_mesh("m", numbers(t, (1, 4, 3)), global_step=2),
    "surface": lambda w, t: w.add_mesh(
        "m", numbers(t, (1, 4, 3)), numbers(t, (1, 4, 3)) * 255,
        t.tensor([[[0, 1, 2], [1, 2, 3]]]), {"camera": {"cls": "PerspectiveCamera"}},
    ),
    "sound": lambda w, t: w.add_audio("s", numbers(t, (1, 50)) - 0.5, 1, 8000),
    "loud sound": lambda w, t: w.add_audio("s", numbers(t, (50,)) * 3),
    "text": lambda w, t: w.add_text("t", "**né**", 4),
    "curve": lambda w, t: w.add_pr_curve(
        "p", t.tensor([0, 1, 1, 0, 1]), t.tensor([0.1, 0.9, 0.4, 0.6, 0.7]), 1
    ),
    "raw curve": lambda w, t: w.add_pr_curve_raw(
        "p", *(numbers(t, (6, 5)) * 9).unbind(), global_step=2, num_thresholds=5
    ),
    "tensor": lambda w, t: w.add_tensor("x", numbers(t), 1),
    "lines": lambda w, t: w.add_custom_scalars_multilinechart(["a", "b"], title="z"),
    "margin": lambda w, t: w.add_custom_scalars_marginchart(["a", "b", "c"]),
    "choices": lambda w, t: w.add_hparams(
        {"lr": 0.1, "name": "x", "on": True}, {"loss": 1.5}, run_name="run"
    ),
}  # fmt: skip


def events(folder):
    """All values in a folder, by the file's folder, as their messages have them."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = []
    for place, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            if "tfevents" not in name:
                continue
            for event in EventFileLoader(os.path.join(place, name)).Load():
                for value in event.summary.value:
                    found.append((os.path.relpath(place, folder), event.step, value))
    return found


@pytest.mark.parametrize("case", WRITES)
def test_events_are_those_that_pytorch_writes(case, tmp_path):
    written = {}
    for name in "ours", "theirs":
        module, writer_class = library(name)
        with writer_class(tmp_path / name) as writer:
            WRITES[case](writer, module)
        written[name] = events(tmp_path / name)
    assert written["ours"]
    if case == "choices":  # the order of fields and a time differ
        for name, values in written.items():
            written[name] = sorted((f, s, v.tag) for f, s, v in values)
    assert written["ours"] == written["theirs"]


def test_curves_are_read_back(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _, writer_class = library("ours")
    writer = writer_class(tmp_path)
    for step in range(4):
        writer.add_scalar("loss", 1 / (step + 1), step)
    writer.flush()
    writer.close()
    writer.add_scalar("loss", 0.1, 9)  # begins another file
    writer.close()
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(e.step, round(e.value, 4)) for e in read.Scalars("loss")] == [
        (0, 1.0), (1, 0.5), (2, 0.3333), (3, 0.25), (9, 0.1)
    ]  # fmt: skip


def test_figures_and_vectors_are_written(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    _, writer_class = library("ours")
    with writer_class(tmp_path) as writer:
        writer.add_figure("f", pyplot.figure(figsize=(1, 1)), 1)
        writer.add_figure("g", [pyplot.figure(figsize=(1, 1)) for _ in range(2)])
        writer.add_embedding(rl.eye(3), metadata=["a", "b", "c"], global_step=2)
    assert [value.tag for _, _, value in events(tmp_path)] == ["f", "g"]
    assert (tmp_path / "00002/default/tensors.tsv").read_text().startswith("1.0\t0.0")
    assert "metadata.tsv" in (tmp_path / "projector_config.pbtxt").read_text()


def test_what_cannot_be_shown_is_refused(tmp_path):
    _, writer_class = library("ours")
    with writer_class(tmp_path) as writer:
        with pytest.raises(AssertionError, match="one element"):
            writer.add_scalar("x", rl.ones(2))
        with pytest.raises(NotImplementedError, match="numpy array or torch tensor"):
            writer.add_scalar("x", object())
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("x", rl.ones(0))
        with pytest.raises(AssertionError, match="input format are different"):
            writer.add_image("x", rl.ones(2, 2))
        with pytest.raises(TypeError, match="should be a dictionary"):
            writer.add_hparams([], {})


def test_graphs_have_operators_inside_of_modules(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from rushlight import nn
    from rushlight.utils.tensorboard import SummaryWriter

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, rl.rand(1, 1, 4, 4))
    events = EventAccumulator(str(tmp_path)).Reload()
    nodes = {node.name: node for node in events.Graph().node}
    assert nodes["input/0"].op == nodes["output/0"].op == "IO Node"
    assert nodes["Sequential/3/weight"].op == "Parameter"
    relu = nodes["Sequential/1/relu"]
    assert relu.op == "aten::relu" and relu.input[0].startswith("Sequential/0/")
    shape = relu.attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [1, 2, 2, 2]
    # From the output back, everything is reached.
    reached, todo = set(), ["output/0"]
    while todo:
        name = todo.pop()
        reached.add(name)
        todo += [each for each in nodes[name].input if each not in reached]
    assert {"input/0", "Sequential/0/weight", "Sequential/3/bias"} <= reached
    assert not any(module._forward_hooks for module in model)


def test_videos_are_read_back_frame_by_frame(tmp_path):
    from PIL import Image

    from rushlight.utils.tensorboard import media

    shades = rl.tensor([0, 120, 240], dtype=rl.uint8).reshape(1, 3, 1, 1, 1)
    message = media.video("v", shades.expand(2, 3, 3, 4, 6), fps=5)
    picture = message.value[0].image
    assert (picture.height, picture.width) == (4, 12)
    import io

    shown = Image.open(io.BytesIO(picture.encoded_image_string))
    assert shown.n_frames == 3 and shown.info["duration"] == 200
    for at, shade in enumerate((0, 120, 240)):
        shown.seek(at)
        assert np.asarray(shown.convert("RGB")).mean() == pytest.approx(shade, abs=2)


def test_models_of_onnx_are_the_graphs_that_pytorch_makes(tmp_path, capsys):
    onnx = pytest.importorskip("onnx", reason="an extra")
    loader = pytest.importorskip("torch.utils.tensorboard._onnx_graph")
    from rushlight.utils.tensorboard.graphs import graph_of_onnx

    make = onnx.helper.make_node
    nodes = [make("Relu", ["x"], ["a"]), make("Concat", ["a", "x"], ["y"], axis=1)]
    ends = [
        [onnx.helper.make_tensor_value_info(name, 1, sizes)]
        for name, sizes in (("x", [2, 3]), ("y", [2, 6]))
    ]
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", *ends)), path)
    assert graph_of_onnx(str(path)) == loader.load_onnx_graph(str(path))
    with library("ours")[1](tmp_path / "log") as writer:
        writer.add_onnx_graph(str(path))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    graph = EventAccumulator(str(tmp_path / "log")).Reload().Graph()
    assert [node.name for node in graph.node] == ["x", "y", "a", "y"]
