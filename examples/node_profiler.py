"""Where a model's time goes, step by step: `python examples/node_profiler.py`."""

import argparse
import statistics
import time

import rushlight as torch
from rushlight import fx, nn


class NodeProfiler(fx.Interpreter):
    """Runs a model's graph and notes how long every step takes.

    Args:
        module: the model; it is recorded.
    """

    def __init__(self, module):
        super().__init__(fx.symbolic_trace(module))
        self.total = []
        self.steps = {}

    def run(self, *args):
        """Runs the whole and notes its time."""
        start = time.perf_counter()
        result = super().run(*args)
        self.total.append(time.perf_counter() - start)
        return result

    def run_node(self, n):
        """Runs one step and notes its time."""
        start = time.perf_counter()
        result = super().run_node(n)
        self.steps.setdefault(n, []).append(time.perf_counter() - start)
        return result

    def table(self):
        """The steps and their shares, the slowest first."""
        whole = statistics.median(self.total)
        rows = [
            (statistics.median(times), node)
            for node, times in self.steps.items()
            if node.op.startswith("call")
        ]
        rows.sort(key=lambda row: -row[0])
        lines = [f"{'step':20} {'kind':14} {'µs':>9} {'share':>7}"]
        for seconds, node in rows:
            lines.append(
                f"{node.name:20} {node.op:14} {seconds * 1e6:9.1f} {seconds / whole:7.1%}"
            )
        return "\n".join(lines)


def main():
    """Profiles a small convolutional net."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).eval()
    images = torch.randn(given.batch, 1, 28, 28)
    profiler = NodeProfiler(model)
    with torch.no_grad():
        for _ in range(given.runs):
            profiler.run(images)
    print(profiler.table())


if __name__ == "__main__":
    main()
