"""The constructs of the language reference, one small program each."""

import math
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

import torch
from torch import Tensor

from tests.jit.programs.kept import prepared

PROGRAMS, program, values = prepared(torch)


# -- types and annotations -------------------------------------------------------------


@program(values(2), 3, 0.5, True, "a", [1], {"k": 2}, (1, "b"), None)
def annotated_types(
    x: Tensor,
    n: int,
    f: float,
    b: bool,
    s: str,
    xs: List[int],  # noqa: UP006
    table: Dict[str, int],  # noqa: UP006
    pair: Tuple[int, str],  # noqa: UP006
    maybe: Optional[int],  # noqa: UP045
) -> Tuple[Tensor, float, str, int]:  # noqa: UP006
    if maybe is None:
        maybe = n
    total = xs[0] + table["k"] + pair[0] + maybe
    return x * total, f + int(b), s + pair[1], total


@program(values(2), 3)
def comment_types(x, n):
    # type: (Tensor, int) -> Tuple[Tensor, int]
    y = torch.jit.annotate(List[int], [])  # noqa: UP006
    y.append(n)
    return x, y[0]


@program()
def annotated_variables() -> tuple[list[int], dict[str, float], int | None]:
    xs: list[int] = []
    table: dict[str, float] = {}
    nothing: int | None = None
    if len(xs) == 0:
        nothing = 3
    xs.append(1)
    table["a"] = 0.5
    return xs, table, nothing


@program()
def annotate() -> tuple[list[str], dict[int, list[float]], int | None]:
    xs = torch.jit.annotate(List[str], [])  # noqa: UP006
    table = torch.jit.annotate(Dict[int, List[float]], {})  # noqa: UP006
    none = torch.jit.annotate(Optional[int], None)  # noqa: UP045
    xs.append("x")
    table[2] = [1.0]
    return xs, table, none


@program([1, 2], 5)
def inferred_result(xs: list[int], n: int):
    return xs[0] + n, "text"


@program(3, "b")
def unions(n: int, s: str) -> list[str]:
    out: list[str] = []
    thing: Union[int, str] = n  # noqa: UP007
    if isinstance(thing, int):
        out.append(str(thing + 1))
    thing = s
    if isinstance(thing, str):
        out.append(thing + "!")
    return out


def told(x: Any) -> str:
    if isinstance(x, int):
        return "int " + str(x + 1)
    elif isinstance(x, str):
        return "str " + x
    elif torch.jit.isinstance(x, List[int]):  # noqa: UP006
        return "ints " + str(len(x))
    elif isinstance(x, Tensor):
        return "tensor"
    return "other"


@program(values(2))
def any_type(x: Tensor) -> list[str]:
    return [told(1), told("a"), told([1, 2]), told(x), told(1.5)]


@program(torch.device("cpu"), torch.float64)
def devices_and_dtypes(d: torch.device, kind: torch.dtype) -> tuple[str, Tensor, bool]:
    return str(d), torch.ones(2, dtype=kind, device=d), d.type == "cpu"


@program()
def complex_numbers() -> tuple[complex, complex, float, bool]:
    c = complex(1.0, 2.0) * 2j
    return c, c + 1, abs(c), c == complex(-4.0, 2.0)


# -- literals and operators ------------------------------------------------------------


@program()
def literals() -> tuple[int, int, int, float, float, str, str, bool, list[int], str]:
    return (
        1,
        0x1F,
        1_000,
        1e-3,
        -2.5,
        'single"',
        "double'",
        False,
        [1, 2],
        """three
lines""",
    )


@program()
def escapes() -> list[str]:
    return ["a\tb\n", "back\\slash", "joined text", "\x41", 'quote"s']


@program(7, 3)
def integer_operators(a: int, b: int) -> list[int]:
    return [a + b, a - b, a * b, a // b, a % b, -a // b, -a % b, a & b, a | b, a ^ b,
            a << b, a >> 1, -a, a if a > b else b]  # fmt: skip


@program(7.5, 2.0, 3)
def float_operators(a: float, b: float, n: int) -> list[float]:
    return [a + b, a - b, a * b, a / b, a // b, a % b, a**b, n / 2, n * a, -a, n**-1.0]


@program(values(2, 2), 2)
def tensor_operators(x: Tensor, n: int) -> list[Tensor]:
    y = x.clone()
    y += 1
    y *= n
    y -= x
    y /= 2
    i = torch.tensor([5, 6])
    return [x + n, n - x, x @ x, x / n, x // n, x % n, x**2, -x, x > 0, ~(x > 0), y,
            i & 3, i | 1, i ^ 2, i << 1, i >> 1, x == x, x != x]  # fmt: skip


@program(1, 5, 9)
def chained_comparisons(a: int, b: int, c: int) -> list[bool]:
    return [a < b < c, a < b > c, a <= b <= b < c, a == b == c, a != b != c]


@program(1, 0, "")
def boolean_operators(a: int, b: int, s: str) -> list[bool]:
    t, f = a == 1, b == 1
    return [t and f, t or f, not t, t and not f or f, a in [1, 2], b not in [1, 2],
            "x" in "xyz", s == "", s is not None]  # fmt: skip


@program(4)
def ternaries(n: int) -> tuple[str, int, float]:
    kind = "even" if n % 2 == 0 else "odd"
    nested = 1 if n > 5 else 2 if n > 3 else 3
    return kind, nested, (1.0 if n else 2.0)


@program(6)
def augmented_assignments(n: int) -> list[int]:
    a = b = n
    a += 2
    b -= 1
    a *= 3
    b -= 2
    xs = [a, b]
    xs[0] += 5
    xs += [n]
    n = n << 2
    xs.append(n)
    return xs


# -- containers ------------------------------------------------------------------------


@program([4, 2, 9], 3)
def comprehensions(
    xs: list[int], n: int
) -> tuple[list[int], list[int], list[str], list[float]]:
    return (
        [x * n for x in xs],
        [i for i in range(n)],
        [str(x) for x in xs],
        [float(x) / 2 for x in xs],
    )


@program([4, 2, 9])
def dictionary_comprehensions(xs: list[int]) -> dict[int, str]:
    return {x: str(x) for x in xs}


@program([0, 1, 2, 3, 4, 5], "abcdef")
def slices(
    xs: list[int], s: str
) -> tuple[list[int], list[int], list[int], list[int], str, str, str]:
    return xs[1:3], xs[:-1], xs[::2], xs[-2:], s[1:3], s[:-2], s[-1]


@program(values(3, 4))
def tensor_slices(x: Tensor) -> list[Tensor]:
    x = x.clone()
    x[0, 1:3] = 5.0
    x[1] += 1
    x[:, -1] = x[:, 0]
    return [
        x[0],
        x[1:, ::2],
        x[..., 0],
        x[None, 1],
        x[-1, -1],
        x[[0, 2]],
        x[x > 0],
        x[:, 1:2],
    ]


@program((1, "b", 2.0))
def tuples(
    t: tuple[int, str, float],
) -> tuple[int, tuple[str, float], int, bool, tuple[int, str]]:
    a, b, c = t
    return a, (b, c), len(t), (1, 2) == (1, 3), t[:2]


@program([1, 2, 3], values(2, 2))
def unpacking(xs: list[int], x: Tensor) -> tuple[int, int, Tensor, int, int]:
    a, b, c = xs
    first, second = x.unbind()
    (p, q), r = (a, b), c
    m, *rest = (p, q, r)
    p, q = q, p
    rows, columns = x.size()
    return a + c, p * 10 + q, first - second, m + len(rest), rows + columns


@program([3, 1, 2])
def list_methods(
    xs: list[int],
) -> tuple[list[int], int, int, int, list[int], list[int], bool]:
    xs.append(7)
    xs.extend([8, 9])
    xs.insert(1, 5)
    last = xs.pop()
    second = xs.pop(1)
    xs.remove(8)
    ys = xs.copy()
    ys.reverse()
    zs = sorted(xs)
    xs.sort(reverse=True)
    ys.clear()
    del xs[0]
    return xs, last, second, zs.index(2) + zs.count(1), ys, zs + [0] * 2, xs == zs


@program({"a": 1, "b": 2})
def dictionary_methods(
    table: dict[str, int],
) -> tuple[list[str], list[int], list[tuple[str, int]], int, int, bool, int, int]:
    table["c"] = 3
    table.update({"d": 4})
    found = table.get("a", 0) + table.get("none", 10)
    there = table.setdefault("e", 5)
    gone = table.pop("b")
    del table["d"]
    maybe = table.get("c")
    assert maybe is not None
    other = table.copy()
    other.clear()
    return (
        list(table.keys()), list(table.values()), list(table.items()), found + there, gone,
        "a" in table and "z" not in table, len(other), maybe,
    )  # fmt: skip


@program("Hello, World", "a,b,c")
def text_methods(s: str, t: str) -> list[str]:
    return [
        s.upper(), s.lower(), s.swapcase(), t.capitalize(), t.title(), s.strip("Hd"),
        s.lstrip("H"), s.rstrip("d"), s.replace("l", "L"), "-".join(t.split(",")),
        t.zfill(7), s.center(20, "*"), t.ljust(7), t.rjust(7), s.expandtabs(),
    ]  # fmt: skip


@program("Hello", "12")
def text_questions(s: str, t: str) -> tuple[list[bool], list[int]]:
    return [
        s.startswith("He"), s.endswith("lo"), t.isdigit(), s.isalpha(), s.islower(), s.isupper(),
        s.isalnum(), t.isdecimal(), t.isnumeric(), s.istitle(), " ".isspace(), s.isidentifier(),
        "a" < "b",
    ], [s.find("l"), s.rfind("l"), s.count("l"), s.index("e"), len(s), int(t)]  # fmt: skip


@program("a b c", "one\ntwo")
def text_parts(
    s: str, t: str
) -> tuple[list[str], list[str], tuple[str, str, str], list[str]]:
    return s.split(" "), t.splitlines(), s.partition(" "), s.rsplit(" ", 1)


@program(3, 0.5, "x")
def formatting(n: int, f: float, s: str) -> list[str]:
    listed = "{}: {}".format(s, [n])  # noqa: UP032
    percent = "%d %s" % (n, s)  # noqa: UP031
    return [f"{n} and {s}", "{} {}".format(n, s), listed, percent, f"{f}"]  # noqa: UP032


# -- statements ------------------------------------------------------------------------


@program([1, 2], {"a": 1, "b": 2}, (1, 2), values(2, 2))
def for_loops(
    xs: list[int], table: dict[str, int], pair: tuple[int, int], x: Tensor
) -> tuple[int, Tensor]:
    total = 0
    for v in xs:
        total += v
    for key in table:
        total += table[key] * 10
    for key, value in table.items():
        total += len(key) * value
    for value in table.values():
        total += value
    for i, v in enumerate(xs):
        total += i * v
    for i, v in enumerate(xs, 1):
        total += i * v
    for a, b in zip(xs, xs):
        total += a * b
    for i, (a, b) in enumerate(zip(xs, [5, 6])):
        total += i * a * b
    for part in pair:
        total += part
    for c in "ab":
        total += ord(c)
    for i in range(10, 2, -3):
        total += i
    out = torch.zeros(2)
    for row in x:
        out = out + row
    return total, out


@program(20)
def while_loops(n: int) -> tuple[int, int]:
    total = 0
    while n > 0:
        n -= 1
        if n % 3 == 0:
            continue
        if total > 60:
            break
        total += n
    while True:
        n += 1
        if n > 30:
            break
    return total, n


@program([3, -1, 4])
def early_returns(xs: list[int]) -> int:
    for i, x in enumerate(xs):
        if x < 0:
            return i
        for j in range(x):
            if j == 7:
                return j
    return -1


@program(2)
def asserts(n: int) -> int:
    assert n > 0, "must be positive"
    assert n < 10, f"too large: {n}"
    assert n
    return n


@program(-1)
def failed_assertion(n: int) -> int:
    assert n > 0, "must be positive"
    return n


@program(-1)
def raised(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    else:
        return n


@program(-1)
def raised_formatted(n: int) -> int:
    if n < 0:
        raise RuntimeError(f"negative: {n}")
    return n


@program(values(2).requires_grad_())
def modes(x: Tensor) -> tuple[bool, bool]:
    with torch.no_grad():
        y = x * 2
    return y.requires_grad, torch.is_grad_enabled()


class Guard:
    def __init__(self, log: list[str]):
        self.log = log

    def __enter__(self) -> int:
        self.log.append("in")
        return 3

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.log.append("out")


@program()
def with_objects() -> tuple[list[str], int]:
    log: list[str] = []
    with Guard(log) as n:
        log.append("body")
    return log, n


@program(1)
def printing_and_pass(n: int) -> int:
    if n > 5:
        print("large", n)
    else:
        pass
    return n


@program(values(3))
def global_constants(x: Tensor) -> tuple[Tensor, int, float]:
    return x.to(torch.float64) * math.pi, int(math.inf > 1.0), math.inf


# -- optional values and instances -----------------------------------------------------


@program(None, 3)
def optionals(a: int | None, b: int | None) -> tuple[int, int, int, bool]:
    if a is not None:
        first = a
    else:
        first = -1
    second = b if b is not None else -1
    if a is None and b is not None:
        third = b + 1
    else:
        third = 0
    if a is None or a > 3:
        fourth = True
    else:
        fourth = a == 1
    return first, second, third, fourth


@program(5)
def unwrapping(a: int | None) -> int:
    assert a is not None
    return a + torch.jit._unwrap_optional(a)


@program([1, 2], values(2))
def instances(xs: list[int], x: Tensor) -> list[bool]:
    return [isinstance(xs, list), isinstance(x, Tensor), isinstance(1, (int, float)),
            isinstance("a", str), isinstance((1, 2), tuple)]  # fmt: skip


# -- builtin functions -----------------------------------------------------------------


@program([3, 1, 2], [0.5, -1.5])
def builtin_functions(
    xs: list[int], fs: list[float]
) -> tuple[list[int], list[float], list[bool], list[int], float, list[int]]:
    return (
        [max(xs), min(xs), sum(xs), len(xs), abs(-3), max(1, 2), min(4, 2), int(2.9), int(True)],
        [max(fs), min(fs), sum(fs), abs(-0.5), float(3), pow(2.0, 0.5), max(1.0, 2.0),
         float(round(2.6))],
        [any([True, False]), all([True, True]), bool(1), bool(0.0)],
        sorted(xs), float("1.5"), list(range(3)),
    )  # fmt: skip


@program(values(3))
def tensor_conversions(x: Tensor) -> tuple[int, float, bool, list[float], float]:
    numbers: list[float] = x.tolist()
    return int(x[0]), float(x[1]), bool(x[2] > 5), numbers, x.sum().item()


@program(torch.tensor(3))
def returned_as_declared(x: Tensor) -> tuple[int, float]:
    if torch.jit.is_scripting():
        return x, x.item()
    return int(x), float(x)


@program(2.5, 10)
def mathematics(f: float, n: int) -> list[float]:
    return [
        math.sqrt(f), math.exp(f), math.log(f), math.sin(f), math.cos(f), math.tan(f),
        math.atan2(f, 1.0),
        math.floor(f) + 0.0, math.ceil(f) + 0.0, math.pow(f, 2), math.fabs(-f),
        math.log10(f), math.log1p(f), math.degrees(f), math.radians(f),
        math.copysign(f, -1.0), math.fmod(f, 2.0), math.erf(f), math.gcd(n, 4) + 0.0,
        math.factorial(5) + 0.0, math.inf, math.e,
    ]  # fmt: skip


@program("abc", 65, 255)
def character_functions(s: str, n: int, m: int) -> tuple[str, int, str, str, str]:
    return chr(n), ord(s[0]), hex(m), bin(m), oct(m)
