"""Compiled programs whose sizes change with each call: building included.

A small transformer is compiled anew in each measured call, and then called at 40 lengths, or
decodes with a cache that grows; beside the same program uncompiled.
"""

import rushlight
from benchmarks.harness import Case, Group
from rushlight import nn

LENGTHS, REPEATS, WIDTH, HEADS, WORDS = range(4, 44), 20, 64, 4, 100
F = nn.functional


class Block(nn.Module):
    """Attention and two linear layers, each behind a norm and around itself."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache=None):
        """The block's result, and its keys and values with those of a cache before them."""
        batch, length, _ = x.shape
        heads = batch, length, HEADS, WIDTH // HEADS
        parts = self.qkv(self.first(x)).split(WIDTH, 2)
        q, k, v = (part.view(heads).transpose(1, 2) for part in parts)
        if cache is not None:
            k, v = (rushlight.cat(pair, 2) for pair in zip(cache, (k, v), strict=True))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.second(x)))), (k, v)


class Transformer(nn.Module):
    """Words and places to scores of words."""

    def __init__(self, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, caches=None, begin=0):
        """The scores, and each block's cache."""
        places = rushlight.arange(begin, begin + tokens.shape[1])
        x, kept = self.words(tokens) + self.places(places), []
        for number, block in enumerate(self.blocks):
            x, cache = block(x, caches and caches[number])
            kept.append(cache)
        return self.scores(self.norm(x)), kept


def inference(layers):
    """The scores of a model for tokens."""
    rushlight.manual_seed(0)
    model = Transformer(layers)

    def answer(tokens):
        with rushlight.no_grad():
            return model(tokens)[0]

    return answer


def training(layers):
    """A step of training on tokens."""
    rushlight.manual_seed(0)
    model = Transformer(layers)
    optimizer = rushlight.optim.SGD(model.parameters(), 1e-3)

    def step(tokens):
        optimizer.zero_grad()
        scores = model(tokens)[0].flatten(0, 1)
        loss = F.cross_entropy(scores, tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def over_lengths(make, layers):
    """A case: the program built, and called several times at each length."""

    def call(library):
        program = make(layers)
        inputs = [rushlight.randint(0, WORDS, (2, length)) for length in LENGTHS]

        def run():
            called = rushlight.compile(program) if library is rushlight else program
            for tokens in inputs:
                for _ in range(REPEATS):
                    called(tokens)

        return run

    return Case(f"{make.__name__}, {layers} layers", call)


def decoding(layers):
    """A case: sequences decoded token by token, each behind a cache that grows."""

    def call(library):
        rushlight.manual_seed(0)
        model = Transformer(layers)
        token = rushlight.ones(1, 1, dtype=rushlight.int64)

        def one(caches, begin):
            with rushlight.no_grad():
                return model(token, caches, begin)[1]

        def run():
            called = rushlight.compile(one) if library is rushlight else one
            for _ in range(REPEATS):
                caches = one(None, 0)
                for begin in range(1, len(LENGTHS)):
                    caches = called(caches, begin)

        return run

    return Case(f"decoding, {layers} layers", call)


def groups(quick):
    """The row of the table.

    Args:
        quick: whether the smaller models are enough.
    """
    layers = (2,) if quick else (2, 6)
    makes = (inference, training)
    cases = [over_lengths(make, count) for make in makes for count in layers]
    cases += [decoding(count) for count in layers]
    title = "compiled at 40 lengths, building included, beside uncompiled"
    return [Group(title, 0.85, cases)]
