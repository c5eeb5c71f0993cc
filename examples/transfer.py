"""A ResNet that has learnt some shapes learns new ones from few pictures.

python examples/transfer.py
python examples/transfer.py --weights resnet18.pth    # torchvision's, of ImageNet
python examples/transfer.py --backend torch           # the same script on PyTorch
"""

import json
from pathlib import Path

from report import Progress, accuracy, draw, options, start, torch
from shapes import shapes

nn, F = torch.nn, torch.nn.functional


class BasicBlock(nn.Module):
    """Two convolutions, and what was there before added."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        kept = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + kept)


class ResNet(nn.Module):
    """ResNet-18, its parts named as torchvision's; narrower ones too."""

    def __init__(self, classes, width=64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        for i in range(4):
            before, after, stride = widths[i], widths[i + 1], 1 if i == 0 else 2
            blocks = BasicBlock(before, after, stride), BasicBlock(after, after, 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(8 * width, classes)

    def features(self, x):
        """What is seen, before anything is made of it."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))

    def forward(self, x):
        return self.fc(self.features(x))


def learn(model, images, labels, args, epochs, title):
    """Losses of the steps; only parameters that want gradients change."""
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True)
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(wanted, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    progress = Progress(title, epochs * len(loader))
    model.train()
    if len(wanted) < len(list(model.parameters())):
        model.eval()  # statistics of what stays as it is stay, too
    for _ in range(epochs):
        for batch, answers in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), answers)
            loss.backward()
            optimizer.step()
            progress.add(loss.item())
    progress.close()
    return progress.losses


def main():
    parser = options(__doc__, "transfer", epochs=3, batch_size=32, lr=0.02)
    parser.add_argument("--weights", type=Path, help="a file of a ResNet-18's state")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--images", type=int, default=960)
    parser.add_argument(
        "--few", type=int, default=48, help="pictures of the new shapes"
    )
    args = parser.parse_args()
    start(args)
    if args.weights:
        args.width = 64
    model = ResNet(1000 if args.weights else 4, args.width)
    panels = {}
    if args.weights:
        model.load_state_dict(torch.load(args.weights))
        print(f"read {args.weights}")
    else:
        images, labels = shapes(args.images, kinds=4, seed=1)
        losses = learn(model, images, labels, args, args.epochs, "four shapes")
        panels["Four shapes"] = {"training": losses}
        torch.save(model.state_dict(), args.out / "resnet.pt")

    few, names = shapes(args.few, kinds=6, seed=3)
    test, answers = shapes(300, kinds=6, seed=4)
    epochs = 8 * args.epochs
    results, curves = {}, {}
    for title in "transferred", "from scratch":
        torch.manual_seed(args.seed + 1)
        learner = ResNet(6, args.width)
        if title == "transferred":
            state = {k: v for k, v in model.state_dict().items() if "fc." not in k}
            print(learner.load_state_dict(state, strict=False))
            for name, parameter in learner.named_parameters():
                parameter.requires_grad_(name.startswith(("fc.", "layer4.")))
        curves[title] = learn(learner, few, names, args, epochs, f"six shapes, {title}")
        results[title] = accuracy(learner, test, answers)
        print(f"  {title}: {results[title]:.1f} % of new pictures right")
    panels[f"Six shapes, {args.few} pictures"] = curves
    history = {"backend": args.backend, "losses": curves, "accuracy": results}
    (args.out / "history.json").write_text(json.dumps(history))
    draw(args.out / "curves.png", panels)


if __name__ == "__main__":
    main()
