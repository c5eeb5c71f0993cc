"""Five models run in five ways, each of whose programs' texts runs in a fresh process."""

from pathlib import Path

import pytest

import rushlight as rl
from rushlight import nn
from tests.graph.test_output_code import read_again, traced  # noqa: F401 a fixture

F = nn.functional


class Decoder(nn.Module):
    """One causal block over tokens, with learned positions."""

    def __init__(self, dropout):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(40, 16)
        self.norm, self.into = nn.LayerNorm(16), nn.Linear(16, 48)
        self.back, self.head = nn.Linear(16, 16), nn.Linear(16, 11)
        self.dropout = nn.Dropout(dropout)

    def forward(self, index):
        x = self.tokens(index) + self.places(rl.arange(index.shape[1]))
        q, k, v = self.into(self.norm(x)).unsqueeze(1).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        return self.head(self.dropout(F.gelu(x + self.back(mixed))))


class Gated(nn.Module):
    """A gated layer behind a norm by the root of the mean square."""

    def __init__(self, dropout):
        super().__init__()
        self.norm, self.dropout = nn.RMSNorm(16), nn.Dropout(dropout)
        self.gate, self.up, self.down = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        y = self.norm(x)
        return x + self.dropout(self.down(F.silu(self.gate(y)) * self.up(y)))


def convolutions(dropout):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout2d(dropout),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip


MODELS = {
    "decoder": (Decoder, lambda n: rl.randint(0, 11, (n, 9))),
    "gated": (Gated, lambda n: rl.randn(n, 4, 16)),
    "convolutions": (convolutions, lambda n: rl.randn(n, 3, 8, 8)),
    "lstm": (
        lambda dropout: nn.LSTM(6, 7, 2, batch_first=True, dropout=dropout),
        lambda n: rl.randn(n, 5, 6),
    ),
    "encoder": (
        lambda dropout: nn.TransformerEncoderLayer(
            16, 2, 32, dropout, batch_first=True
        ),
        lambda n: rl.randn(n, 5, 16),
    ),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


def stepping(model, update):
    def step(x):
        update.zero_grad()
        loss = first(model(x)).square().mean()
        loss.backward()
        update.step()
        return loss

    return step


def breaking(model):
    def run(x):
        y = first(model(x))
        y = y * 2 if y.sum().item() > 0 else y * 3 - 1
        return (y + 1).relu().softmax(-1)

    return run


def run(kind, model, make, found):
    """Calls a compiled model until a program was built; training goes on from call to call."""
    before = len(found)
    if kind in ("training", "drawing"):
        step = rl.compile(stepping(model, rl.optim.AdamW(model.parameters())))
        x = make(3)
        for _ in range(9):
            step(x)
            if len(found) > before:
                break
        return
    model.eval()
    call = rl.compile(breaking(model) if kind == "breaks" else model)
    sizes = [2, 3, 4, 5, 6, 7] * 20 if kind == "dynamic" else [3, 3]
    with rl.no_grad():
        for n in sizes:
            call(make(n))


@pytest.mark.parametrize(
    "kind", ["inference", "training", "dynamic", "breaks", "drawing"]
)
def test_texts_of_five_models_run_in_another_process(kind, traced):  # noqa: F811
    rl.manual_seed(0)
    seen: dict = {}
    for name, (build, make) in MODELS.items():
        before = set(traced)
        run(kind, build(0.3 if kind == "drawing" else 0.0), make, traced)
        seen[name] = set(traced) - before
        assert seen[name], f"{name} has no program"
    texts = {f: Path(f, "output_code.py").read_text(encoding="utf-8") for f in traced}
    assert all("def call(args" in text for text in texts.values())
    assert any(Path(__file__).name in text for text in texts.values())
    assert read_again(traced) == traced
