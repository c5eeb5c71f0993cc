"""The language reference's classes, modules and names of ``torch.jit``, one program each."""

import enum
from collections import OrderedDict
from typing import Final, NamedTuple, Optional

import torch
from torch import Tensor, nn

from tests.jit.programs.kept import prepared

PROGRAMS, program, values = prepared(torch)


# -- names of torch.jit ----------------------------------------------------------------


@torch.jit.ignore
def stays_python(x: Tensor) -> Tensor:
    return x + 5


@program(values(2))
def scripting_names(x: Tensor) -> Tensor:
    if not torch.jit.is_scripting():
        return x * 3 + 1
    if torch.jit.is_tracing():
        return x
    return x * 3 + 1


@torch.jit.unused
def never_run(x: Tensor) -> Tensor:
    raise RuntimeError("not translated")


@program(values(2), False)
def unused_functions(x: Tensor, on: bool) -> Tensor:
    if on:
        return never_run(x)
    return x


def doubled(x: Tensor, times: int = 2) -> Tensor:
    return x * times


@program(values(2))
def forks(x: Tensor) -> Tensor:
    tasks: list[torch.jit.Future[Tensor]] = []
    for i in range(3):
        tasks.append(torch.jit.fork(doubled, x, i))
    out = torch.zeros(2)
    for task in tasks:
        out = out + torch.jit.wait(task)
    return out


@program(values(2))
def calls_by_name(x: Tensor) -> Tensor:
    return doubled(times=3, x=x) + doubled(x) + torch.add(x, other=x, alpha=2)


# -- classes ---------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Tensor
    second: int = 4


@program(values(2))
def named_tuples(x: Tensor) -> tuple[Pair, Tensor, int]:
    pair = Pair(x)
    other = Pair(second=1, first=x + 1)
    a, b = other
    return pair, other.first + a, pair.second + b + pair[1]


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


def mode_name(m: Mode) -> str:
    if m == Mode.FAST:
        return "fast " + m.name
    return "slow " + str(m.value)


@program()
def enumerations() -> list[str]:
    out = [mode_name(Mode.FAST), mode_name(Mode.SLOW)]
    for mode in Mode:
        out.append(mode.name)
    return out


class Vector:
    scale: int

    def __init__(self, x: int, y: int = 0):
        self.x = x
        self.y = y
        self.scale = 1

    @property
    def total(self) -> int:
        return (self.x + self.y) * self.scale

    @total.setter
    def total(self, value: int):
        self.scale = value

    @staticmethod
    def zero() -> int:
        return 0

    def __add__(self, other: "Vector") -> "Vector":
        return Vector(self.x + other.x, self.y + other.y)

    def __eq__(self, other: "Vector") -> bool:
        return self.x == other.x and self.y == other.y

    def __lt__(self, other: "Vector") -> bool:
        return self.x < other.x

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> int:
        return self.x if at == 0 else self.y

    def __setitem__(self, at: int, value: int) -> None:
        if at == 0:
            self.x = value
        else:
            self.y = value

    def __contains__(self, value: int) -> bool:
        return self.x == value or self.y == value

    def __neg__(self) -> "Vector":
        return Vector(-self.x, -self.y)

    def __call__(self, by: int) -> int:
        return self.x * by


@program()
def classes() -> tuple[list[int], list[bool]]:
    v = Vector(1, 2)
    w = v + Vector(3)
    v[0] = 7
    w.total = 2
    v.y += 4
    n = -w
    return [v[0], v.y, w.total, len(v), v(3), n.x, Vector.zero()], [
        v == v,
        w < v,
        6 in v,
    ]


# -- modules ---------------------------------------------------------------------------


@torch.jit.interface
class Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Scaled(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


class Shifted(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


@program(values(2))
class interfaces(nn.Module):
    layer: Layer

    def __init__(self):
        super().__init__()
        self.layer = Scaled(2.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.forward(x)


@program(values(2), 3)
class attributes(nn.Module):
    rate: Final[float]
    names: list[str]
    table: dict[str, int]
    maybe: Optional[Tensor]  # noqa: UP045
    __constants__ = ["times"]

    def __init__(self):
        super().__init__()
        self.rate = 0.5
        self.times = 3
        self.names = ["a"]
        self.table = {}
        self.register_buffer("seen", torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(2))
        self.maybe = None

    @property
    def double(self) -> float:
        return self.rate * 2

    @torch.jit.export
    def other(self, n: int) -> int:
        return n * self.times

    @torch.jit.ignore
    def python_only(self, x):
        return x

    @torch.jit.unused
    def never(self, x: Tensor) -> Tensor:
        return x.not_there

    def forward(self, x: Tensor, n: int) -> tuple[Tensor, int, list[str], float, bool]:
        self.seen += 1
        self.names.append("b")
        self.table["n"] = n
        maybe = self.maybe
        if maybe is None:
            self.maybe = x
        if self.training:
            x = x + self.weight
        return (
            x + self.seen,
            self.other(n) + self.table["n"],
            self.names,
            self.double,
            maybe is None,
        )


@program(values(2))
class containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scaled(2.0), Shifted(1.0)])
        self.named = nn.ModuleDict(OrderedDict(a=Scaled(3.0), b=Shifted(2.0)))
        self.line = nn.Sequential(Scaled(0.5), Shifted(0.5))

    def forward(self, x: Tensor) -> tuple[Tensor, list[str], int]:
        names: list[str] = []
        for layer in self.layers:
            x = layer(x)
        for i, layer in enumerate(self.layers):
            x = layer(x) * i
        for name, layer in self.named.items():
            names.append(name)
            x = layer(x)
        for first, second in zip(self.layers, self.named.values()):
            x = first(x) + second(x)
        if "a" in self.named:
            x = self.named["a"](x)
        return self.line(self.layers[1](x)), names, len(self.layers)


@program(values(2))
class enumeration_attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.FAST

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        if self.mode == Mode.FAST:
            x = x * 2
        return x, self.mode.value


@program(values(2))
class hooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled(3.0)

        def before(self, given: tuple[Tensor]) -> tuple[Tensor]:
            return (given[0] + 1,)

        def after(self, given: tuple[Tensor], result: Tensor) -> Tensor:
            return result - given[0]

        def looks(self, given: tuple[Tensor], result: Tensor) -> None:
            assert result.dim() == given[0].dim()

        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)
        self.inner.register_forward_hook(looks)
        self.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 2
