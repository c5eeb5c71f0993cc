"""The other examples learn, leave a picture, and lose what they lose on PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.serialization import safetensors

ROOT = Path(__file__).parents[2]
SMALL = {
    "vit": ["--images", "192", "--epochs", "2"],
    "transfer": ["--images", "96", "--few", "24", "--epochs", "1", "--width", "4"],
    "distillation": ["--images", "96", "--epochs", "2"],
    "graph_nets": ["--papers", "300", "--epochs", "3", "--table", "sgd"],
}


def run(name, out, *options):
    """What an example writes down, and what it prints."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", "--out", out, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((out / "history.json").read_text()), done.stdout


def flat(losses):
    return losses if isinstance(losses, list) else sum(losses.values(), [])


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs_and_loses_what_it_does_on_pytorch(name, tmp_path):
    pytest.importorskip("torch", reason="the oracle is not installed")
    ours, printed = run(name, tmp_path / "ours", *SMALL[name])
    theirs, _ = run(name, tmp_path / "theirs", *SMALL[name], "--backend", "torch")
    first = flat(ours["losses"])[:3]
    assert first == pytest.approx(flat(theirs["losses"])[:3], rel=1e-4)
    assert flat(ours["losses"]) == pytest.approx(flat(theirs["losses"]), rel=0.2)
    assert (tmp_path / "ours" / "curves.png").stat().st_size > 5000
    assert "loss" in printed


def test_graph_networks_learn_from_citations_what_words_alone_do_not_say(tmp_path):
    history, printed = run("graph_nets", tmp_path, "--papers", "500", "--epochs", "30")
    right = history["accuracy"]
    assert right["GCN"] > right["words alone"] + 20, right
    assert right["GAT"] > right["words alone"] + 20, right
    assert "ms a step" in printed


def test_a_network_in_fewer_bits_names_as_many_pictures(tmp_path):
    sizes = "--images", "192", "--epochs", "2", "--tested", "120"
    history, printed = run("quantized", tmp_path, *sizes)
    right = history["accuracy"]
    assert len(right) == 6 and "weights of 4 bits" in printed
    of_floats = [right[name] for name in right if name != "trained for it"]
    assert max(of_floats) - min(of_floats) < 10, right


PIECES = (
    "[PAD] [UNK] [CLS] [SEP] a b c d e f g h i j k l m n o p q r s t u v w x y z . ! ?"
)


@pytest.fixture
def folder(tmp_path):
    """A BERT that is small and knows nothing, as people share them."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import bert
    finally:
        sys.path.remove(str(ROOT / "examples"))
    letters = PIECES.split()
    pieces = letters + ["##" + piece for piece in letters if piece.isalpha()]
    sizes = {
        "vocab_size": len(pieces), "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
        "architectures": ["BertModel"],
    }  # fmt: skip
    place = tmp_path / "model"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(sizes))
    (place / "vocab.txt").write_text("\n".join(pieces))
    rl.manual_seed(0)
    model = bert.BertModel(bert.BertConfig.read(place / "config.json"))
    state = dict(model.state_dict())
    state["embeddings.position_ids"] = rl.arange(64).view(1, 64)
    safetensors.save_file(state, place / "model.safetensors", {"format": "pt"})
    return place


@pytest.mark.slow
def test_a_bert_is_read_and_fine_tuned_as_on_pytorch(folder, tmp_path):
    pytest.importorskip("torch", reason="the oracle is not installed")
    pytest.importorskip("safetensors", reason="what PyTorch reads the file with")
    options = ["--model", folder, "--epochs", "3", "--lr", "1e-3"]
    ours, printed = run("minilm", tmp_path / "ours", *options)
    theirs, _ = run("minilm", tmp_path / "theirs", *options, "--backend", "torch")
    for mine, other in zip(ours["vectors"], theirs["vectors"]):
        assert mine == pytest.approx(other, abs=1e-5)
    assert ours["losses"][:3] == pytest.approx(theirs["losses"][:3], rel=1e-3)
    assert sum(ours["losses"][-5:]) < sum(ours["losses"][:5])
    assert "of new sentences right" in printed


@pytest.mark.parametrize("kind", ["absolute", "relative_key", "relative_key_query"])
def test_every_kind_of_position_tells_orders_apart(kind):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import bert
    finally:
        sys.path.remove(str(ROOT / "examples"))
    rl.manual_seed(0)
    config = bert.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16, position_embedding_type=kind,
        initializer_range=0.5,
    )  # fmt: skip
    model = bert.BertModel(config).eval()
    hidden, pooled = model(rl.tensor([[3, 4, 5, 6]]))
    turned, _ = model(rl.tensor([[3, 6, 5, 4]]))
    assert hidden.shape == (1, 4, 16) and pooled.shape == (1, 16)
    assert not rl.allclose(hidden[:, 0], turned[:, 0])
    padded, _ = model(rl.tensor([[3, 4, 5, 6, 0]]), rl.tensor([[1, 1, 1, 1, 0]]))
    assert rl.allclose(padded[:, :4], hidden, atol=1e-5)
