"""A vision transformer tells shapes apart: patches of a picture are its words.

python examples/vit.py
python examples/vit.py --backend torch    # the same script on PyTorch
"""

import json

from report import Progress, draw, options, start, torch
from shapes import NAMES, shapes

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """Attention between the patches, then each patch by itself."""

    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)
        )

    def forward(self, x):
        seen = self.norm1(x)
        x = x + self.attention(seen, seen, seen, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches as vectors with their places, blocks, and a word that says what it is."""

    def __init__(self, classes, side=32, patch=8, size=64, depth=4, heads=4):
        super().__init__()
        self.patches = nn.Conv2d(3, size, patch, stride=patch)
        self.answer = nn.Parameter(torch.zeros(1, 1, size))
        self.places = nn.Parameter(
            0.02 * torch.randn(1, (side // patch) ** 2 + 1, size)
        )
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.answer.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    parser = options(__doc__, "vit", epochs=6, batch_size=64, lr=1e-3)
    parser.add_argument("--images", type=int, default=2048)
    args = parser.parse_args()
    start(args)
    images, labels = shapes(args.images, seed=1)
    test_images, test_labels = shapes(400, seed=2)
    data = torch.utils.data.TensorDataset(images, labels)
    loader = torch.utils.data.DataLoader(data, args.batch_size, shuffle=True)
    model = ViT(4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr, total_steps=args.epochs * len(loader)
    )
    history = {"backend": args.backend, "losses": [], "accuracy": []}
    for epoch in range(1, args.epochs + 1):
        progress = Progress(f"epoch {epoch}/{args.epochs}", len(loader))
        model.train()
        for batch, wanted in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch), wanted, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            scheduler.step()
            progress.add(loss.item())
        model.eval()
        with torch.no_grad():
            right = (model(test_images).argmax(1) == test_labels).float()
        history["losses"] += progress.losses
        history["accuracy"].append(100 * right.mean().item())
        progress.close(f", test accuracy {history['accuracy'][-1]:.1f} %")
    for number, name in enumerate(NAMES[:4]):
        share = 100 * right[test_labels == number].mean().item()
        print(f"  {name:9} {share:5.1f} %")
    torch.save(model.state_dict(), args.out / "vit.pt")
    (args.out / "history.json").write_text(json.dumps(history))
    draw(
        args.out / "curves.png",
        {
            "Loss": {"training": history["losses"]},
            "Accuracy": {"test, %": history["accuracy"]},
        },
    )


if __name__ == "__main__":
    main()
