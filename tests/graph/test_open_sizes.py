"""Programs for sizes that were not met: eager's numbers, and nothing planned."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config
from rushlight.graph import pipeline
from rushlight.graph.compiled_function import counters

F = nn.functional
SIZES = (5, 6, 8, 7, 3, 2, 11, 20, 1, 4, 0, 19, 40, 150, 8, 11)


def attention(q):
    k, v = q * 0.5, q + 1
    scores = (q @ k.transpose(-1, -2)).softmax(-1)
    return scores @ v


def decode(x):
    cache = rl.ones(3, 4)
    return rl.cat([cache, x]).cumsum(0) * x.shape[0]


PROGRAMS = {
    "elements": lambda x: ((x * 2 + 1).relu() - 3).abs() * x,
    "a row's softmax": lambda x: (x.exp() + 1).softmax(0),
    "columns": lambda x: (x - x.mean(0)) / (x.var(0, correction=0) + 1),
    "everything": lambda x: (x * 2).sum() + x.square().mean(),
    "broadcast": lambda x: (x[:, None] + x[None]).sin().sum(0),
    "products": lambda x: (x @ x.t()).relu() @ x,
    "attention": attention,
    "numbers of the size": lambda x: x * (1 / (x.shape[0] + 1)) + x.shape[0],
    "a slice": lambda x: (x[: x.shape[0] // 2] + 1).tanh() * 2,
    "a clamped slice": lambda x: (x[:10] * 2).exp().sum(1),
    "steps": lambda x: (x[::2] + 1).relu().sum(1),
    "turned": lambda x: (x.t() * 3).contiguous().view(-1) + 1,
    "reshaped": lambda x: (x * 2).reshape(-1, 2).sum(1) + 1,
    "cat": decode,
    "padded": lambda x: F.pad(x + 1, (0, 0, 0, 3)).relu() * 2,
    "sorted": lambda x: (x.sort(0).values * 2).cumsum(0),
    "a range": lambda x: x * rl.arange(x.shape[0])[:, None] + 1,
    "a mask": lambda x: (x @ x.t() + 1).tril().sum(1) * 2,
    "in place": lambda x: (x * 2).add_(1).mul_(x).relu_(),
    "convolved": lambda x: F.conv1d(x.t()[None] + 1, rl.ones(2, 4, 2)).relu() * 2,
    "halved": lambda x: F.conv1d(x.t()[None] + 1, rl.ones(2, 4, 2), stride=2) * 2,
    "pooled": lambda x: F.avg_pool1d((x + 1).t()[None], 2, ceil_mode=True) * 2,
    "stretched": lambda x: F.interpolate((x + 1).t()[None], scale_factor=1.5) * 2,
    "picked": lambda x: (x[rl.arange(x.shape[0]).flip(0)] + 1) * x,
    "normed": lambda x: F.layer_norm(x * 2, (4,)) + F.layer_norm(x.t() * 1, x.shape[:1]).t(),
    "a read": lambda x: (x * 2 + (1 if x.abs().sum() > 0 else 2)) * 3,
    "two results": lambda x: ((x + 1).max(0).values * 2, x.exp() + 1),
    "two dimensions": lambda x: (x[:, :, None] * x.t()[None]).sum(1) + 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def made_at_the_first_call(monkeypatch):
    """Programs for other sizes do not wait until these have come often."""
    monkeypatch.setattr(config, "open_size_calls", 0)


def same(found, wanted):
    if isinstance(wanted, tuple):
        return all(map(same, found, wanted))
    return (
        found.shape == wanted.shape
        and found.stride() == wanted.stride()
        and rl.allclose(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    )


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_eagers_numbers_at_each_size(name):
    program = PROGRAMS[name]
    compiled = rl.compile(program)
    rl.manual_seed(0)
    for repeat in range(2):
        for number, size in enumerate(SIZES):
            x = rl.randn(size, 4)
            wanted = outcome(program, x)
            for _ in range((2, 26, 1)[(number + repeat) % 3]):
                found = outcome(compiled, x)
                if isinstance(wanted, type):
                    assert found is wanted
                else:
                    assert same(found, wanted), (size, found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers_at_each_size(name):
    program = PROGRAMS[name]
    rl.manual_seed(0)

    def slope(function, x):
        x = x.detach().requires_grad_()
        result = function(x)
        total = (
            result.sum()
            if isinstance(result, rl.Tensor)
            else sum(r.sum() for r in result)
        )
        return rl.autograd.grad(total, x)[0]

    compiled = rl.compile(program)
    whole = rl.compile(lambda x: slope(program, x))
    for size in SIZES:
        x = rl.randn(size, 4)
        wanted = outcome(lambda x: slope(program, x), x)
        for _ in range(2):
            for found in (outcome(lambda x: slope(compiled, x), x), outcome(whole, x)):
                if isinstance(wanted, type):
                    assert found is wanted
                else:
                    assert rl.allclose(found, wanted, rtol=1e-4, atol=1e-5), size


def refuse(*_):
    raise AssertionError("a program is planned")


CLOSED = {"a slice", "steps", "reshaped", "halved", "pooled", "stretched", "cat",
          "numbers of the size", "a clamped slice"}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - CLOSED))
def test_the_fourth_size_plans_nothing(name, monkeypatch):
    compiled = rl.compile(PROGRAMS[name])
    for size in (5, 6, 8):
        for _ in range(2):
            compiled(rl.randn(size, 4))
    monkeypatch.setattr(pipeline, "plan", refuse)
    before = counters["stats"]["opened_programs"]
    for size in (7, 9, 20, 3, 11):
        for _ in range(2):
            compiled(rl.randn(size, 4))
    assert counters["stats"]["opened_programs"] >= before + 5


def test_a_size_beyond_four_times_the_largest_is_planned_and_widens_the_family():
    program = PROGRAMS["products"]
    compiled = rl.compile(program)
    for size in (5, 6, 8):
        for _ in range(2):
            compiled(rl.randn(size, 4))
    before = counters["stats"]["opened_programs"]
    for size, count in ((33, 0), (32, 1), (132, 2), (600, 2)):
        for _ in range(2):
            x = rl.randn(size, 4)
            assert same(compiled(x), program(x))
        assert counters["stats"]["opened_programs"] - before == count


def test_sizes_stay_closed_where_the_program_asks_for_it():
    compiled = rl.compile(PROGRAMS["elements"], dynamic=False)
    before = counters["stats"]["opened_programs"]
    for size in (5, 6, 8, 7, 9):
        for _ in range(2):
            compiled(rl.randn(size, 4))
    assert counters["stats"]["opened_programs"] == before
    assert not compiled._runner.families


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, 2)
        heads = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


def test_a_transformer_trains_as_uncompiled_while_lengths_change():
    def losses(compile_step):
        rl.manual_seed(0)
        table = nn.Embedding(20, 8)
        model = nn.Sequential(Block(8, 2), Block(8, 2), nn.Linear(8, 20))
        params = [*table.parameters(), *model.parameters()]
        optimizer = rl.optim.AdamW(params, lr=1e-2)

        def step(tokens):
            optimizer.zero_grad()
            logits = model(table(tokens))
            loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            return loss

        taken = rl.compile(step) if compile_step else step
        lengths = (5, 5, 6, 6, 8, 8, *[7] * 30, 9, 12, 3, 2, 7, 20, 9, 1, 31, 30, 7, 33)
        return [taken(rl.arange(2 * n).view(2, n) % 20).item() for n in lengths]

    before = counters["stats"]["opened_programs"]
    assert losses(True) == pytest.approx(losses(False), rel=2e-4)
    assert counters["stats"]["opened_programs"] - before >= 4


def plans_of(monkeypatch):
    """A list that gets an item for each program that is planned."""
    made, plan = [], pipeline.plan
    monkeypatch.setattr(
        pipeline, "plan", lambda *args: made.append(args[-1]) or plan(*args)
    )
    return made


def test_sizes_that_were_noted_before_three_were_planned_are_opened_too(monkeypatch):
    program = PROGRAMS["products"]
    compiled, planned = rl.compile(program), plans_of(monkeypatch)
    for _ in range(3):
        for size in (5, 6, 8, 7, 9, 20, 3, 11):
            x = rl.randn(size, 4)
            assert same(compiled(x), program(x))
    assert len(planned) == 3


def test_a_cache_that_grows_by_one_each_step_plans_three_programs(monkeypatch):
    def step(keys, x):
        keys = rl.cat([keys, x @ x.mT], 1)
        return keys, (keys * 2).softmax(1) @ x[0]

    compiled, planned = rl.compile(step), plans_of(monkeypatch)
    for _ in range(4):
        keys = wanted_keys = rl.randn(1, 2, 2)
        for _ in range(30):
            x = rl.randn(1, 2, 2)
            keys, found = compiled(keys, x)
            wanted_keys, wanted = step(wanted_keys, x)
            assert same(found, wanted) and same(keys, wanted_keys)
    assert len(planned) <= 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_differ_by_twos_and_threes_say_nothing_of_others(name):
    program = PROGRAMS[name]
    for sizes in ((4, 6, 8, 10, 7, 12, 9, 5, 30), (3, 6, 9, 12, 10, 15, 8, 7, 30)):
        compiled = rl.compile(program)
        for size in [n for n in sizes for _ in range(2)]:
            x = rl.randn(size, 4)
            wanted, found = outcome(program, x), outcome(compiled, x)
            if isinstance(wanted, type):
                assert found is wanted
            else:
                assert same(found, wanted), size


def test_multiples_are_open_before_other_sizes_are(monkeypatch):
    program = PROGRAMS["products"]
    compiled, planned = rl.compile(program), plans_of(monkeypatch)
    counts = []
    for size in (4, 6, 8, 12, 30, 7, 9, 11):
        for _ in range(2):
            x = rl.randn(size, 4)
            assert same(compiled(x), program(x))
        counts.append(len(planned))
    assert counts == [1, 2, 3, 3, 3, 4, 4, 4]
