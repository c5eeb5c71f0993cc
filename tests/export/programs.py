"""Modules that are exported on both sides: written for any library of PyTorch's names."""


def programs(torch):
    """Name -> (module, args, kwargs), with weights that a seed decides."""
    nn, F = torch.nn, torch.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2 = nn.Linear(256, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
            x = F.relu(self.fc1(torch.flatten(x, 1)))
            return F.log_softmax(self.fc2(x), dim=1)

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 4)
            self.register_buffer("seen", torch.zeros(3))
            self.register_buffer("hidden", torch.zeros(3), persistent=False)
            self.scale = torch.full((4,), 0.5)

        def forward(self, x, rest, *, y=None, times=2):
            self.seen.add_(1)
            self.hidden = self.hidden + 1
            z = self.fc(x + self.hidden) * self.scale - torch.tensor(3.0)
            if y is not None:
                z = z + y["a"] * times
            with torch.no_grad():
                still = z * 2
            return {"out": z, "two": [x.sum(), times, rest[1], still]}

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            self.b.weight = self.a.weight

        def forward(self, x, *more, **named):
            return self.b(self.a(x)) + more[0] + named["z"]

    class Views(nn.Module):
        def forward(self, x):
            y = x.transpose(0, 1)[1:, None].expand(-1, 2, -1)
            top, rest = y.split([1, y.shape[0] - 1])
            z = torch.cat([top, rest], 2).reshape(-1)
            best, where = x.max(1)
            return (
                z.view(2, -1) > 0,
                best,
                where,
                x[:, [0, 2]].double(),
                x.clamp_max(x),
                torch.where(x > 0, x, 0.0),
            )

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.conv = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 3, padding=1)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return x + self.drop(self.conv(F.gelu(self.norm(x))))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
            self.norm = nn.LayerNorm(8)

        def forward(self, tokens):
            x = self.embed(tokens)
            heads = [
                f(x).view(2, 5, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v)
            ]
            y = F.scaled_dot_product_attention(*heads)
            return self.norm(x + y.transpose(1, 2).reshape(2, 5, 8)).mean(1)

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            w = x * 2
            return torch.cond(
                x.sum() > 0, lambda x: self.fc(x) + w, lambda x: x.cos(), (x,)
            )

    class Loop(nn.Module):
        def forward(self, x):
            return torch.while_loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x)
            )

    class Numbers(nn.Module):
        def forward(self, x, i):
            mask, count = x > 0, i[0].item()
            torch._check(count >= 0)
            torch._check(count <= 3)
            picked = x[mask] * 2 + x[mask]
            return (
                picked,
                x[:count],
                x * x.max().item(),
                torch.zeros(count),
                i.nonzero(),
            )

    torch.manual_seed(0)
    image = torch.randn(2, 1, 28, 28)
    ones = torch.ones
    return {
        "lenet": (LeNet(), (image,), {}),
        "nested": (
            Nested(),
            (torch.randn(2, 3), [1, ones(2)]),
            {"times": 2, "y": {"a": ones(4)}},
        ),
        "tied": (Tied(), (ones(1, 2), ones(2)), {"z": ones(1)}),
        "views": (Views(), (torch.randn(4, 3),), {}),
        "block": (Block(), (torch.randn(2, 3, 5, 5),), {}),
        "block_eval": (Block().eval(), (torch.randn(2, 3, 5, 5),), {}),
        "attention": (Attention(), (torch.randint(0, 11, (2, 5)),), {}),
        "branch": (Branch(), (ones(1, 2),), {}),
        "loop": (Loop(), (ones(2),), {}),
        "numbers": (Numbers(), (torch.randn(5), torch.arange(3)), {}),
        "layers": (
            nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid()),
            (torch.randn(3, 4),),
            {},
        ),
        "encoder": (
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            (torch.randn(2, 3, 8),),
            {},
        ),
        "lstm": (nn.LSTM(3, 4), (torch.randn(5, 2, 3),), {}),
    }


NAMES = """
    lenet nested tied views block block_eval attention branch loop numbers layers encoder lstm
""".split()
