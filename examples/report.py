"""What the examples share: the library that they run on, and how they say how it goes."""

import argparse
import os
import sys
import time
from pathlib import Path

if "torch" in sys.argv or "--backend=torch" in sys.argv:
    import torch
else:
    import rushlight as torch


def options(text, out, **defaults):
    """A parser with the options that all examples have.

    Args:
        text: what the example does.
        out: where its picture goes.
        defaults: of the options ``epochs``, ``batch_size``, ``lr`` and ``seed``.
    """
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=defaults.get("epochs", 3))
    parser.add_argument(
        "--batch-size", type=int, default=defaults.get("batch_size", 32)
    )
    parser.add_argument("--lr", type=float, default=defaults.get("lr", 1e-3))
    parser.add_argument("--seed", type=int, default=defaults.get("seed", 0))
    parser.add_argument("--threads", type=int, default=0, help="0 chooses by itself")
    parser.add_argument("--out", type=Path, default=Path("runs") / out)
    parser.add_argument(
        "--backend", choices=["rushlight", "torch"], default="rushlight"
    )
    return parser


def start(args):
    """Makes the folder, sets the seed and the threads."""
    args.out.mkdir(parents=True, exist_ok=True)
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)


def accuracy(model, images, labels):
    """The share of pictures named rightly, in percent."""
    model.eval()
    with torch.no_grad():
        return 100 * (model(images).argmax(1) == labels).float().mean().item()


class Progress:
    """Losses as they come: a line that is rewritten, on a terminal only."""

    def __init__(self, title, steps):
        self.title = title
        self.steps = steps
        self.losses = []
        self.begun = time.perf_counter()
        self.live = sys.stdout.isatty()

    def add(self, loss):
        """Takes the loss of a step."""
        self.losses.append(loss)
        if self.live:
            print(f"\r{self}", end="", flush=True)

    def close(self, note=""):
        """Says how it went."""
        print(f"\r{self}{note}" if self.live else f"{self}{note}", flush=True)

    def __str__(self):
        last = self.losses[-20:]
        seconds = time.perf_counter() - self.begun
        return (
            f"{self.title}: step {len(self.losses)}/{self.steps}, "
            f"loss {sum(last) / max(1, len(last)):.4f}, {seconds:.1f} s"
        )


def draw(path, panels):
    """Curves side by side in a picture; nothing where matplotlib is not installed.

    Args:
        path: the picture's.
        panels: for each its title and its curves by name.
    """
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1,
        len(panels),
        figsize=(5 * len(panels), 4),
        layout="constrained",
        squeeze=False,
    )
    for axis, (title, curves) in zip(axes[0], panels.items()):
        for name, values in curves.items():
            axis.plot(range(1, len(values) + 1), values, label=name)
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"wrote {os.path.relpath(path)}")
