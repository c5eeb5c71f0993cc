"""A small network learns from a large one's doubts, not from the labels alone.

python examples/distillation.py
python examples/distillation.py --backend torch    # the same script on PyTorch
"""

import json

from report import Progress, accuracy, draw, options, start, torch
from shapes import shapes

nn, F = torch.nn, torch.nn.functional
KINDS = 6


def network(width):
    """Three convolutions and a layer that says the shape."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, KINDS),
    )  # fmt: skip


def soft_loss(answers, wanted, labels, temperature, share):
    """How far the answers are from the teacher's, softened, and from the labels."""
    soft = F.kl_div(
        F.log_softmax(answers / temperature, 1),
        F.log_softmax(wanted / temperature, 1),
        reduction="batchmean",
        log_target=True,
    )
    hard = F.cross_entropy(answers, labels)
    return share * temperature**2 * soft + (1 - share) * hard


def learn(model, data, args, title, teacher=None):
    """Losses of the steps."""
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    progress = Progress(title, args.epochs * len(loader))
    model.train()
    for _ in range(args.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            answers = model(images)
            if teacher is None:
                loss = F.cross_entropy(answers, labels)
            else:
                with torch.no_grad():
                    wanted = teacher(images)
                loss = soft_loss(answers, wanted, labels, args.temperature, args.share)
            loss.backward()
            optimizer.step()
            progress.add(loss.item())
    progress.close()
    return progress.losses


def main():
    parser = options(__doc__, "distillation", epochs=6, batch_size=32, lr=3e-3)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument(
        "--share", type=float, default=0.7, help="of the teacher's word"
    )
    parser.add_argument("--images", type=int, default=960)
    args = parser.parse_args()
    start(args)
    data = torch.utils.data.TensorDataset(*shapes(args.images, kinds=KINDS, seed=1))
    test = shapes(300, kinds=KINDS, seed=2)
    losses, results = {}, {}
    models = {"teacher": network(24)}
    for title in "teacher", "student alone", "student taught":
        torch.manual_seed(args.seed + 1)
        teacher = models["teacher"] if title == "student taught" else None
        model = models.setdefault(title, network(24 if title == "teacher" else 6))
        losses[title] = learn(model, data, args, title, teacher)
        results[title] = accuracy(model, *test)
        count = sum(p.numel() for p in model.parameters())
        print(f"  {count:,} parameters: {results[title]:.1f} % of new pictures right")
    history = {"backend": args.backend, "losses": losses, "accuracy": results}
    (args.out / "history.json").write_text(json.dumps(history))
    torch.save(models["student taught"].state_dict(), args.out / "student.pt")
    draw(args.out / "curves.png", {"Loss": losses})


if __name__ == "__main__":
    main()
