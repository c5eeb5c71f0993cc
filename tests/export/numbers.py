"""Programs whose sizes follow from elements, or that read numbers, for both libraries.

Each is a function of the library and of its tensors, whose kinds letters tell: f for
floats, i for integers, m for a matrix.
"""


def checked(lib, number, *conditions):
    """The number, of which conditions are promised."""
    for condition in conditions:
        lib._check(condition(number))
    return number


def first(i):
    return i[0].item()


def put(x, mask, value):
    """A copy with other elements where a mask holds."""
    made = x * 1
    made[mask] = value
    return made


def check_mask(lib, x):
    lib._check((x > 0).all().item())
    return x + 1


def both_ways(lib, x):
    return lib.cond(x.sum() > 0, lambda x: x[x > 1].sum(), lambda x: x.sum(), (x,))


def constrained(lib, i):
    number = first(i)
    lib.sym_constrain_range(number, min=1, max=50)
    return lib.zeros(number)


def masked_loss(lib, m, i):
    mask = i[:2] > 1
    return lib.nn.functional.cross_entropy(m[mask], (i[:2] - 1)[mask] % 2)


SIZES = {
    "nonzero": ("f", lambda lib, x: (x - 1.5).nonzero() + 1),
    "its size": ("f", lambda lib, x: lib.zeros(x.nonzero().shape[0])),
    "its number": ("f", lambda lib, x: x.nonzero().numel()),
    "nonzero by columns": ("m", lambda lib, m: lib.nonzero(m > 1, as_tuple=True)),
    "where of a truth": ("f", lambda lib, x: lib.where(x > 1)),
    "argwhere": ("m", lambda lib, m: lib.argwhere(m > 1)),
    "unique": ("f", lambda lib, x: lib.unique(x)),
    "unique, all of it": (
        "f", lambda lib, x: lib.unique(x, return_inverse=True, return_counts=True)
    ),
    "unique rows": ("m", lambda lib, m: lib.unique(m, dim=0)),
    "runs": ("f", lambda lib, x: lib.unique_consecutive(x, return_counts=True)),
    "runs of rows": ("m", lambda lib, m: lib.unique_consecutive(m, dim=0)),
    "masked_select": ("f", lambda lib, x: lib.masked_select(x, x > 1)),
    "mask": ("f", lambda lib, x: x[x > 1]),
    "mask of a matrix": ("m", lambda lib, m: m[m > 1]),
    "mask of rows": ("m", lambda lib, m: m[m[:, 0] > 1] @ m),
    "mask of columns": ("m", lambda lib, m: m[:, m[0] > 1]),
    "two masks": ("f", lambda lib, x: x[x > 1].sum() + x[x > 2].sum()),
    "two sizes that are one": ("f", lambda lib, x: x[x > 1] * 2 + x[x > 1]),
    "a loss of what a mask picks": ("mi", masked_loss),
    "put by a mask": ("f", lambda lib, x: put(x, x > 1, x[x > 1] * 2)),
    "put a number by a mask": ("f", lambda lib, x: put(x, x > 1, 0.0)),
    "bincount": ("i", lambda lib, i: lib.bincount(i)),
    "bincount of so many": ("i", lambda lib, i: lib.bincount(i, minlength=7)),
    "repeat_interleave": ("fi", lambda lib, x, i: lib.repeat_interleave(x, i)),
    "repeat_interleave of rows": ("mi", lambda lib, m, i: m.repeat_interleave(i[:2], 0)),
    "repeat_interleave of places": ("i", lambda lib, i: lib.repeat_interleave(i)),
    "view": ("f", lambda lib, x: x.nonzero().view(-1)),
    "reshape": ("f", lambda lib, x: x[x > 1].reshape(-1, 1)),
    "cat": ("f", lambda lib, x: lib.cat([x[x > 1], x, x[x > 2]])),
    "linear": ("m", lambda lib, m: lib.nn.functional.linear(m[m[:, 0] > 1], m)),
    "pad": ("m", lambda lib, m: lib.nn.functional.pad(m[m > 1], (1, 2))),
    "expand": ("f", lambda lib, x: x[x > 1].unsqueeze(0).expand(2, -1)),
    "by places": ("m", lambda lib, m: m[(m[:, 0] > 1).nonzero().squeeze(1)]),
    "mean": ("f", lambda lib, x: x.sum() / x[x > 0].numel()),
    "sort": ("f", lambda lib, x: x[x > 1].sort()[0].softmax(0)),
    "promised": (
        "f",
        lambda lib, x: lib.zeros(
            checked(lib, x.nonzero().shape[0], lambda n: n >= 1, lambda n: n <= 3)
        ),
    ),
    "in a branch": ("f", both_ways),
}  # fmt: skip

NUMBERS = {
    "integer": ("i", lambda lib, i: first(i)),
    "integer added": ("i", lambda lib, i: i + first(i)),
    "float added": ("f", lambda lib, x: x + x[0].item()),
    "float computed": ("f", lambda lib, x: x * (x.max().item() * 2 + 1)),
    "float filled": ("f", lambda lib, x: lib.full((3,), x[0].item())),
    "float in place of masked": ("f", lambda lib, x: x.masked_fill(x > 1, x[0].item())),
    "float that limits": ("f", lambda lib, x: x.clamp(max=x.mean().item())),
    "truth that is promised": ("f", check_mask),
    "size": ("i", lambda lib, i: lib.zeros(first(i))),
    "size computed": ("i", lambda lib, i: lib.zeros(first(i) * 2 + 1)),
    "size by halves": ("i", lambda lib, i: lib.zeros(first(i) // 2)),
    "size by a remainder": ("i", lambda lib, i: lib.zeros(first(i) % 3 + 2)),
    "quotient": ("i", lambda lib, i: i + first(i) / 2),
    "negative": ("fi", lambda lib, x, i: x + -first(i)),
    "subtracted": ("fi", lambda lib, x, i: 3 - first(i) + x),
    "power": ("fi", lambda lib, x, i: x ** first(i)),
    "sizes": ("i", lambda lib, i: lib.zeros(i.tolist())),
    "arange": ("i", lambda lib, i: lib.arange(i.max().item() + 1)),
    "repeat": ("fi", lambda lib, x, i: x.repeat(first(i))),
    "expand": ("fi", lambda lib, x, i: x.expand(first(i), -1)),
    "roll": ("fi", lambda lib, x, i: x.roll(first(i))),
    "topk": ("fi", lambda lib, x, i: tuple(x.topk(first(i)))),
    "empty": ("i", lambda lib, i: lib.empty(first(i), 3).fill_(1.0)),
    "beginning": ("fi", lambda lib, x, i: x[: first(i)]),
    "promised beginning": (
        "fi",
        lambda lib, x, i: x[: checked(lib, first(i), lambda n: n >= 0, lambda n: n <= 3)],
    ),
    "place": ("fi", lambda lib, x, i: x[first(i)]),
    "place by a tensor": ("fi", lambda lib, x, i: x[i[0]]),
    "promised place": (
        "fi",
        lambda lib, x, i: x[checked(lib, first(i), lambda n: n >= 0, lambda n: n < 3)],
    ),
    "window": (
        "fi",
        lambda lib, x, i: x.narrow(
            0, checked(lib, first(i), lambda n: n >= 0, lambda n: n <= 2), 1
        ),
    ),
    "parts": ("fi", lambda lib, x, i: lib.split(x, (i * 0 + 1).tolist())),
    "promised size": ("i", lambda lib, i: lib.zeros(
        checked(lib, first(i), lambda n: n > 0, lambda n: 12 > n)
    )),
    "promised both": (
        "i", lambda lib, i: checked(lib, first(i), lambda n: (n > 0) & (n < 50))
    ),
    "promised unequal": ("i", lambda lib, i: checked(lib, first(i), lambda n: n != 9)),
    "promised equal": (
        "fi", lambda lib, x, i: x + checked(lib, first(i) * 0 + 1, lambda n: n == 1)
    ),
    "promised order": (
        "i", lambda lib, i: checked(lib, first(i), lambda n: n <= i[1].item())
    ),
    "bounds": ("i", constrained),
}  # fmt: skip

# What nobody can answer without elements.
REFUSED = {
    "branch": ("fi", lambda lib, x, i: x if first(i) > 0 else x + 1),
    "branch by a size": ("f", lambda lib, x: x if x.nonzero().shape[0] > 1 else x + 1),
    "branch by a tensor": ("f", lambda lib, x: x if x[0] > 0 else -x),
    "int": ("i", lambda lib, i: i + int(i[0])),
    "float": ("f", lambda lib, x: x + float(x[0])),
    "len": ("f", lambda lib, x: len(x.nonzero())),
    "range": ("i", lambda lib, i: sum(range(first(i)))),
    "classes of one_hot": ("i", lambda lib, i: lib.nn.functional.one_hot(i)),
}

PROGRAMS = {**SIZES, **{f"a number: {name}": one for name, one in NUMBERS.items()}}


def arguments(lib, kinds, other=False):
    """Tensors of these kinds; other elements of the same sizes."""
    made = {
        "f": lib.tensor([2.5, 0.5, 2.0] if other else [0.5, 1.5, 2.5]),
        "i": lib.tensor([2, 2, 5] if other else [1, 2, 3]),
        "m": lib.tensor(
            [[2.5, 1.5], [0.5, 2.0]] if other else [[0.5, 1.5], [2.5, 3.5]]
        ),
    }
    return tuple(made[kind] for kind in kinds)


def exported(lib, function, kinds):
    """The program of a function, and the module that it is of."""

    class Program(lib.nn.Module):
        def forward(self, *tensors):
            return function(lib, *tensors)

    return lib.export.export(Program(), arguments(lib, kinds)), Program()
