"""Functions whose graphs are compared with PyTorch's, letter by letter."""

import math

import torch
from torch import Tensor, nn

from tests.jit.programs.kept import prepared

PROGRAMS, program, values = prepared(torch)


@program()
def product(x):
    return x * 2


@program()
def named(x):
    y = x * 2
    return y


@program()
def numbers(x, n: int):
    return x + n * 2


@program()
def several_names(x):
    y = x * 2
    z = y + x
    return z - y


@program()
def again(x):
    x = x + 1
    x = x * x
    return x


@program()
def branch(x, n: int):
    if n > 3:
        y = x * 2
    else:
        y = x
    return y


@program()
def one_way(x, n: int):
    if n > 3:
        x = x * 2
    return x


@program()
def nested(x: Tensor, n: int) -> Tensor:
    if n < 3:
        y = x - n
    elif n == 5:
        y = x
    else:
        y = n + x
    return y - n


@program()
def chosen(n: int) -> str:
    return "many" if n > 3 else "few"


@program()
def operators(x):
    return torch.relu(x) + x.sum()


@program()
def sizes(x):
    return x.view(2, -1)


@program()
def items(xs: list[int]):
    return xs[0] + xs[-1]


@program()
def parts(x, xs: list[int]):
    return x[0], x[1:], xs[1:], xs[:-1], xs[::2]


@program()
def filled(n: int):
    xs = [n, 1]
    xs.append(2)
    table = {"a": n}
    table["b"] = 3
    return xs, table, (n, "text")


@program()
def texts(s: str):
    return s + "a\tb'c\"\n", f"{s} and {s}"


@program()
def floats(f: float):
    return f * 0.1 + math.pi, f % 3.0, int(f)


@program()
def unpacked(x, pair: tuple[int, float]):
    a, b = pair
    c, d = x.unbind(0)
    return c * a, d * b


@program()
def made_list(xs: list[int]):
    return [x * x for x in xs]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.scale = 3

    def forward(self, x):
        return self.layer(x) * self.scale


@program()
class module(Net):
    pass


@program()
def loop(x, n: int):
    for k in range(n):
        x = x + k
    return x


@program()
def while_loop(x, n: int):
    while n > 0:
        x = x + n
        n = n - 1
    return x


@program()
def early(n: int):
    if n > 3:
        return 1
    return 2
