"""A convolutional network and a language model, written for either library."""


def models(rl):
    nn, F = rl.nn, rl.nn.functional

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.f1, self.f2, self.f3 = (
                nn.Linear(400, 120),
                nn.Linear(120, 84),
                nn.Linear(84, 10),
            )

        def forward(self, x):
            x = F.max_pool2d(self.c1(x).relu(), 2)
            x = F.max_pool2d(self.c2(x).relu(), 2).flatten(1)
            return self.f3(self.f2(self.f1(x).relu()).relu())

    class Block(nn.Module):
        def __init__(self, n, heads):
            super().__init__()
            self.heads, self.l1, self.l2 = heads, nn.LayerNorm(n), nn.LayerNorm(n)
            self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
            self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

        def forward(self, x):
            b, t, n = x.shape
            q, k, v = (
                y.view(b, t, self.heads, -1).transpose(1, 2)
                for y in self.qkv(self.l1(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, n))
            return x + self.down(F.gelu(self.up(self.l2(x))))

    class Gpt(nn.Module):
        def __init__(self, vocabulary=256, n=128, heads=4, depth=4, length=128):
            super().__init__()
            self.letters, self.places = (
                nn.Embedding(vocabulary, n),
                nn.Embedding(length, n),
            )
            self.blocks = nn.Sequential(*[Block(n, heads) for _ in range(depth)])
            self.last, self.head = nn.LayerNorm(n), nn.Linear(n, vocabulary, bias=False)

        def forward(self, x):
            h = self.letters(x) + self.places(rl.arange(x.shape[1], device=x.device))
            return self.head(self.last(self.blocks(h))).flatten(0, 1)

    return LeNet, Gpt
