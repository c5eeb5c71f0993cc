"""LeNet learns handwritten digits: a PyTorch tutorial with one import changed.

python examples/mnist.py                    # Rushlight
python examples/mnist.py --backend torch    # the same script on PyTorch
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

if "torch" in sys.argv or "--backend=torch" in sys.argv:
    import torch
    from torch import nn, optim
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset
else:
    import rushlight as torch
    from rushlight import nn, optim
    from rushlight.nn import functional as F
    from rushlight.utils.data import DataLoader

MEAN, STD = 0.1307, 0.3081  # of the training images


class LeNet(nn.Module):
    """Two convolutions and three linear layers, for images of 28 by 28 pixels."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def digits(args, train):
    """MNIST's images, normalised, with their labels; downloaded if not there."""
    from rushlight import datasets, transforms

    if args.backend == "torch":
        data = datasets.MNIST(args.data, train=train, download=args.download)
        images = torch.from_numpy(data.data.numpy()).float().div(255).unsqueeze(1)
        return TensorDataset(
            images.sub(MEAN).div(STD), torch.from_numpy(data.targets.numpy())
        )
    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))]
    )
    return datasets.MNIST(
        args.data, train=train, transform=transform, download=args.download
    )


def train(model, loader, optimizer, args, progress):
    """One pass over the training images; the loss of every step."""
    model.train()
    losses = []
    for images, labels in progress(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress.note(losses)
        if len(losses) == args.max_steps:
            break
    return losses


def test(model, loader):
    """The share of the test images that the model names rightly, in percent."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(1) == labels).sum().item()
            total += len(labels)
    return 100 * right / total


class Progress:
    """A bar with the mean loss of the last 100 steps, where tqdm is installed."""

    def __init__(self, title):
        self.title = title
        self.bar = None

    def __call__(self, loader):
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            return loader
        self.bar = tqdm(
            loader, self.title, unit="batch", file=sys.stdout, mininterval=0.2
        )
        return self.bar

    def note(self, losses):
        if self.bar is not None and len(losses) % 100 == 0:
            self.bar.set_postfix_str(f"loss {sum(losses[-100:]) / 100:.4f}")


def save(model, optimizer, epoch, folder):
    """Writes the checkpoint; one that is there stays until the new one is whole."""
    state = {
        "epoch": epoch,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(state, folder / "lenet.pt")


def draw(history, folder):
    """A picture of the loss at every step and of the accuracy after every epoch."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    losses, accuracy = history["losses"], history["accuracy"]
    per_epoch = len(losses) / max(1, len(accuracy))
    smooth = [
        sum(losses[max(0, i - 49) : i + 1]) / min(i + 1, 50) for i in range(len(losses))
    ]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(losses, color="0.8", linewidth=0.5, label="each step")
    left.plot(smooth, color="tab:orange", label="mean of 50")
    left.set(xlabel="step", ylabel="training loss", yscale="log", title="Loss")
    left.legend()
    right.plot(
        [per_epoch * (i + 1) for i in range(len(accuracy))],
        accuracy,
        "o-",
        color="tab:blue",
    )
    right.set(xlabel="step", ylabel="test accuracy (%)", title="Accuracy")
    for step, value in enumerate(accuracy, 1):
        right.annotate(
            f"{value:.2f}",
            (per_epoch * step, value),
            textcoords="offset points",
            xytext=(0, 8),
            ha="center",
        )
    right.margins(0.15)
    right.grid(alpha=0.3)
    figure.savefig(folder / "curves.png", dpi=120)
    pyplot.close(figure)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--workers", type=int, default=0, help="processes that load data"
    )
    parser.add_argument("--max-steps", type=int, default=0, help="stop an epoch early")
    parser.add_argument("--threads", type=int, default=0, help="0 chooses by itself")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/mnist"))
    parser.add_argument("--no-download", dest="download", action="store_false")
    parser.add_argument(
        "--backend", choices=["rushlight", "torch"], default="rushlight"
    )
    return parser.parse_args()


def main():
    args = options()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    train_loader = DataLoader(
        digits(args, True), args.batch_size, shuffle=True, num_workers=args.workers
    )
    test_loader = DataLoader(digits(args, False), 1000)

    model = LeNet()
    optimizer = optim.Adam(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    history = {"backend": args.backend, "losses": [], "accuracy": [], "seconds": []}
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        progress = Progress(f"epoch {epoch}/{args.epochs}")
        losses = train(model, train_loader, optimizer, args, progress)
        scheduler.step()
        history["seconds"].append(time.perf_counter() - start)
        history["losses"] += losses
        history["accuracy"].append(test(model, test_loader))
        save(model, optimizer, epoch, args.out)
        print(
            f"epoch {epoch}: loss {sum(losses[-100:]) / len(losses[-100:]):.4f}, "
            f"test accuracy {history['accuracy'][-1]:.2f} %, "
            f"{history['seconds'][-1]:.1f} s"
        )
    (args.out / "history.json").write_text(json.dumps(history))
    draw(history, args.out)
    print(
        f"wrote {os.path.relpath(args.out)}: {', '.join(sorted(os.listdir(args.out)))}"
    )


if __name__ == "__main__":
    main()
