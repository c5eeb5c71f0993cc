"""Programs that both libraries translate: each with operands and, for some, a wrong call."""

from enum import Enum
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.jit.programs.kept import prepared

PROGRAMS, program, values = prepared(torch)


@program(values(3), 5)
def branches(x: Tensor, n: int) -> Tensor:
    if n > 3:
        y = x * 2
    elif n == 3:
        y = x + 1
    else:
        y = x
    return y - n


@program(values(4), 6)
def loops(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        if i % 2 == 0:
            x = x + i
        elif i == 5:
            break
        else:
            continue
        x = x * 0.5
    while n > 0:
        n -= 2
        x = x + n
    for j in range(10, 0, -3):
        x = x - j
    return x


@program([3, 1, 2], 2)
def early(xs: list[int], wanted: int) -> int:
    for i, x in enumerate(xs):
        if x == wanted:
            return i
    return -1


@program([3, 1, 2], 4)
def nested_returns(xs: list[int], wanted: int) -> tuple[int, bool]:
    for x in xs:
        for y in xs:
            if x * y == wanted:
                return x, True
            if x + y == 100:
                break
    return 0, False


@program([1, 2, 3, 4])
def lists(xs: list[int]) -> tuple[list[int], int, list[int], list[list[int]]]:
    squares = [x * x for x in xs]
    odd = [x + 1 for x in squares]
    xs.append(7)
    xs.extend([8, 9])
    last = xs.pop()
    xs.insert(0, -1)
    xs.reverse()
    xs[1] = 100
    del xs[2]
    squares.sort(reverse=True)
    grid = [[i + j for j in range(2)] for i in range(2)]
    return xs[1:4] + odd, last + len(xs) + xs.index(100), squares, grid


@program({"a": 1, "b": 2}, "a")
def dictionaries(
    d: dict[str, int], key: str
) -> tuple[int, list[str], dict[int, float]]:
    total = 0
    for k, v in d.items():
        total += v + len(k)
    if key in d:
        d[key] = 10
    d["c"] = total
    made = {i: i * 0.5 for i in range(3)}
    found = d.get("zzz")
    if found is not None:
        total = found
    total += d.get(key, 5)
    return total + d["c"], list(d.keys()), made


@program("hello world", 3)
def texts(s: str, n: int) -> tuple[str, list[str], bool, str, int]:
    parts = s.split(" ")
    joined = "-".join(parts)
    shown = f"{joined} {n}"
    old = "%s has %d" % (s, n)  # noqa: UP031
    return (
        shown.upper(),
        parts,
        s.startswith("he"),
        f"{old}:{2.5}",
        s.find("wor"),
    )


@program(7, 2.5)
def scalars(n: int, f: float) -> tuple[float, int, int, float, bool, float, int, float]:
    a = n / 2
    b = n // 2
    c = n % 4
    d = f**2
    e = n > 3 and f < 10.0 or not n == 7
    return a, b, c, d, e, float(n) + f, int(f) + abs(-3), max(f, 1.0)


@program(values(4, 5, 6))
def indices(x: Tensor) -> list[Tensor]:
    rows = torch.tensor([0, 2])
    y = x.clone()
    y[0, 1:3] = 5.0
    y[..., 0] = x[..., 1]
    y[1] += 1
    return [
        x[0],
        x[1:3, 2],
        x[:, None, 1],
        x[..., -1],
        x[rows],
        x[0, rows],
        x[::2, ..., 1:4:2],
        y,
    ]


@program(values(3), None)
def optional(x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None:
        bias = torch.zeros_like(x)
    assert bias is not None
    y = x + bias
    scale: float | None = None
    if scale is not None:
        y = y * scale
    return y if y.sum() > 100 else -y


@program(values(2, 3))
def several(x: Tensor) -> tuple[Tensor, Tensor, int, list[int]]:
    best, where = x.max(1)
    a, b, c = x.unbind(1)
    sizes = x.size()
    rows, columns = x.shape
    top = torch.topk(x, 2, dim=1)
    return (
        best + a + b * c + top[0].sum(),
        where,
        rows * columns + sizes[0],
        list(sizes),
    )


class Point(NamedTuple):
    x: Tensor
    y: int


@program(values(2))
def named_tuples(x: Tensor) -> tuple[Point, Tensor]:
    p = Point(x, 3)
    q = Point(y=4, x=p.x * p.y)
    return q, q.x + q.y + p[1]


class Colour(Enum):
    RED = 1
    BLUE = 2


def is_red(c: Colour) -> bool:
    return c == Colour.RED


@program(values(2))
def enumerations(x: Tensor) -> tuple[bool, int, str]:
    c = Colour.BLUE
    return is_red(c), c.value, c.name


class Counter:
    def __init__(self, start: int):
        self.count = start
        self.seen: list[int] = []

    def add(self, n: int) -> int:
        self.count += n
        self.seen.append(n)
        return self.count

    @property
    def double(self) -> int:
        return self.count * 2

    @staticmethod
    def zero() -> int:
        return 0

    def __len__(self) -> int:
        return len(self.seen)


@program(5)
def classes(n: int) -> tuple[int, list[int], int]:
    c = Counter(n)
    for i in range(3):
        c.add(i)
    return c.count + len(c), c.seen, c.add(Counter.zero())


def helper(x: Tensor, scale: float = 2.0, shift: int = 1) -> Tensor:
    return x * scale + shift


@program(values(3))
def calls(x: Tensor) -> Tensor:
    return helper(helper(x, shift=3), 0.5) + helper(x, scale=1.5)


@program(values(2, 3, 8, 8))
def functional(x: Tensor) -> Tensor:
    y = F.relu(x, inplace=False)
    y = F.max_pool2d(y, 2)
    y = F.pad(y, [1, 1])
    y = F.gelu(y) + F.leaky_relu(y, 0.2) + torch.sigmoid(y)
    y = F.softmax(y, dim=-1) + F.dropout(y, 0.5, training=False)
    return F.layer_norm(y, y.shape[-1:]).mean(dim=(2, 3), keepdim=True)


@program(values(3))
def creation(x: Tensor) -> list[Tensor]:
    a = torch.zeros(2, 3, dtype=torch.float64, device=x.device)
    b = torch.ones([2], dtype=x.dtype) + torch.full((2,), 3.0)
    c = torch.arange(5).to(torch.float32)
    d = torch.tensor([[1, 2], [3, 4]], dtype=torch.int64)
    return [a, b, c, d, torch.cat([c, x]), torch.stack([x, x], dim=1), torch.eye(2)]


@program(values(3), 3)
def any_and_instance(x: Tensor, n: int) -> tuple[str, str]:
    return kind_of(x), kind_of(n)


def kind_of(x: Any) -> str:
    if isinstance(x, int):
        return "int " + str(x + 1)
    if isinstance(x, Tensor):
        return "tensor " + str(x.dim())
    return "other"


@program(3)
def unions(n: int) -> tuple[str, str]:
    return of_union(n), of_union("a")


def of_union(x: int | str) -> str:
    if isinstance(x, str):
        return x + "!"
    else:
        return str(x * 2)


def slow_double(x: Tensor) -> Tensor:
    return x * 2


@program(values(3))
def tasks(x: Tensor) -> Tensor:
    futures = [torch.jit.fork(slow_double, x) for _ in range(3)]
    total = torch.zeros_like(x)
    for future in futures:
        total += torch.jit.wait(future)
    return total


@program(values(3))
def zipped(x: Tensor) -> Tensor:
    for a, b in zip([1, 2, 3], [0.5, 1.5, 2.5]):
        x = x * a + b
    for i, (c, d) in enumerate(zip([1, 2], [3, 4])):
        x = x + i * c - d
    for name, t in {"a": 1.0, "b": 2.0}.items():
        x = x + t * len(name)
    return x


@program(values(3))
def no_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y + x


class Small(nn.Module):
    __constants__ = ["width"]

    def __init__(self):
        super().__init__()
        self.width = 3
        self.first = nn.Linear(4, 5)
        self.rest = nn.ModuleList([nn.Linear(5, 5) for _ in range(2)])
        self.table = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.norm = nn.BatchNorm1d(5)
        self.register_buffer("steps", torch.zeros(()))
        self.register_parameter("absent", None)
        self.scale = 0.5
        self.names: list[str] = ["a"]
        self.eval()

    def forward(
        self, x: Tensor, extra: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        x = self.first(x)
        for i, layer in enumerate(self.rest):
            x = layer(x) + i
        for layer in self.table.values():
            x = layer(x)
        if extra is not None:
            x = x + extra
        if self.absent is not None:
            x = x + self.absent
        self.steps += 1
        return self.norm(x) * self.scale + self.width, {"steps": self.steps}

    @torch.jit.export
    def describe(self, n: int) -> str:
        return ",".join(self.names) + str(n)


@program(values(2, 4))
class small_module(Small):
    pass


@program(values(2, 3, 16, 16))
class convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, stride=2, groups=2),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d((2, 2)),
            nn.Dropout(0.2),
        )
        self.up = nn.ConvTranspose2d(8, 3, 2, stride=2)
        self.head = nn.Linear(3 * 4 * 4, 5)
        self.eval()

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(self.up(x), 1)
        return F.log_softmax(self.head(x), dim=1)


@program(torch.tensor([[1, 2, 3], [4, 0, 2]]))
class attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 8, padding_idx=0)
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.heads = 2

    def split(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        mask = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
        scores = (q @ k.transpose(-2, -1)) / (q.size(-1) ** 0.5)
        scores = scores.masked_fill(mask, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        return self.norm(x + y)


@program(values(3), values(3))
def results_are_written(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    kept, total = torch.zeros_like(x), torch.zeros(1)
    torch.mul(x, y, out=kept)
    torch.addcmul(kept, x, y, value=2.0, out=kept)
    torch.sum(kept, 0, keepdim=True, out=total)
    for _ in range(2):
        torch.div(kept, 2.0, out=kept)
    return kept, total
