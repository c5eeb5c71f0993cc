"""Fresh processes, fresh or kept kernels: what the first training step takes more."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

MODELS = {
    "LeNet": """
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
given = torch.rand(16, 1, 28, 28)
""",
    "ResNet": """
class Block(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.a = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.b = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(planes), nn.BatchNorm2d(planes)
    def forward(self, x):
        y = nn.functional.relu(self.na(self.a(x)))
        return nn.functional.relu(self.nb(self.b(y)) + x)
model = nn.Sequential(
    nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
    nn.MaxPool2d(3, 2, 1), Block(16), Block(16),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
given = torch.rand(4, 3, 32, 32)
""",
    "GPT": """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, 4, -1).transpose(1, 2)
                   for p in self.qkv(self.n1(x)).split(c, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.n2(x))))
model = nn.Sequential(nn.Embedding(100, 32), Layer(32), Layer(32), nn.LayerNorm(32),
                      nn.Linear(32, 100), nn.Flatten(0, 1))
given = torch.randint(0, 100, (2, 16))
""",
    "LSTM": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(50, 16), nn.Linear(32, 10)
        self.states = nn.LSTM(16, 32, 2, batch_first=True)
    def forward(self, x):
        return self.out(self.states(self.words(x))[0]).flatten(0, 1)
model = Tagger()
given = torch.randint(0, 50, (4, 12))
""",
    "BERT": """
model = nn.Sequential(
    nn.Embedding(100, 32), nn.LayerNorm(32), nn.Dropout(0.1),
    nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2),
    nn.Linear(32, 100), nn.Flatten(0, 1))
given = torch.randint(0, 100, (2, 16))
""",
}
# Time of the process, so that what else the machine does is left out.
STEPS = """
import time, statistics
import {library} as torch
from {library} import nn, optim
torch.manual_seed(0)
{model}
update = optim.Adam(model.parameters())
labels = None

def step():
    global labels
    update.zero_grad()
    output = model(given)
    if labels is None:
        labels = torch.randint(0, output.shape[1], (output.shape[0],))
    loss = nn.functional.cross_entropy(output, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    update.step()
    return loss.item()

times = []
for _ in range(6):
    start = time.process_time()
    step()
    times.append(time.process_time() - start)
print(times[0] - statistics.median(times[2:]))
"""


def added(name, cache, library="rushlight"):
    """Seconds that the first step of a model takes more than later ones."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUSHLIGHT_CACHE": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = STEPS.format(model=MODELS[name], library=library)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def measure(rounds=3):
    """For each model, seconds with an empty cache, with the kernels it then holds, and
    over PyTorch."""
    rows = {}
    for name in MODELS:
        empty, kept, theirs = [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(added(name, cache))
                kept.append(added(name, cache))
                theirs.append(added(name, cache, "torch"))
        rows[name] = tuple(map(statistics.median, (empty, kept, theirs)))
    return rows


if __name__ == "__main__":
    for name, (empty, kept, theirs) in measure().items():
        print(
            f"{name:8} empty cache {empty:6.2f} s, kernels kept {kept:6.3f} s, "
            f"PyTorch {theirs:6.3f} s"
        )
