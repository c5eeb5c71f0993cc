"""Programs of numbers alone, with operands at the edges of what they take."""

import math


def longest_chain(n: int) -> int:
    best = 0
    for start in range(1, n):
        x = start
        steps = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        if steps > best:
            best = steps
    return best


def wave(n: int) -> float:
    total = 0.0
    for i in range(n):
        total += math.sin(i * 0.1) * i / (i + 1) + math.exp(-i) - math.log(i + 0.5)
        total += math.atan2(total, 3) + math.sqrt(abs(total)) + math.fmod(total, 0.7)
    return total


def every_operator(n: int, a: int, b: int, x: float, y: float) -> list[float]:
    out = [0.0] * 24
    for i in range(n):
        p = a + i
        q = b - i
        u = x + i * 0.5
        v = y - i
        out[0] += float(p & q)
        out[1] += float(p | q)
        out[2] += float(p ^ q)
        out[3] += float(-p)
        out[4] += float(p << (i & 7))
        out[5] += float(p >> (i & 7))
        out[6] += p / (q * q + 1)
        out[7] += float(p // (q * q + 1))
        out[8] += float(p % (q * q + 1))
        out[9] += u / (v * v + 0.25)
        out[10] += u // (v + 0.3)
        out[11] += u % (v + 0.3)
        out[12] += float(min(p, q)) + min(u, v)
        out[13] += float(max(p, q)) + max(u, v)
        out[14] += float(abs(p)) + abs(v)
        out[15] += float(int(u)) + float(math.floor(v)) + float(math.ceil(v))
        out[16] += round(u)
        out[17] += float(p < q) + float(u >= v) + float(p == q) + float(p != i)
        out[18] += u**2 + abs(v) ** 0.5 + float(i) ** 3
        out[19] += float(bool(p) and not bool(q)) + float(u < p)
        out[20] += math.tanh(v) + math.erf(u) + math.log1p(abs(u)) + math.copysign(u, v)
        out[21] += math.degrees(v) + math.radians(u) + math.lgamma(abs(v) + 1)
        out[22] += float(math.isnan(u)) + float(math.isinf(v))
        out[23] += math.log(abs(u) + 1, 2) + float(divmod(p, 7)[0]) - divmod(p, 7)[1]
    return out


def wraps(n: int) -> int:
    x = 1
    for _ in range(n):
        x = x * 6364136223846793005 + 1442695040888963407
    return x


def pair(n: int) -> tuple[int, tuple[int, bool]]:
    a, b = 0, (1, True)
    for i in range(n):
        a, b = b[0], ((a + b[0]) % 1000007, i % 2 == 0)
    return a, b


def is_prime(n: int) -> bool:
    if n < 2:
        return False
    i = 2
    while i * i <= n:
        if n % i == 0:
            return False
        i += 1
    return True


def half(n: int) -> int:
    return n // 2 if n % 2 == 0 else n


def calls(n: int) -> int:
    total = 0
    for i in range(n, 0, -3):
        if i == 7:
            continue
        if total > 5000:
            break
        total += half(i) + half(total)
    return total


def sieve(marks: list[int]) -> tuple[int, list[int]]:
    n = len(marks)
    for i in range(2, n):
        if marks[i] != 0:
            j = i * i
            while j < n:
                marks[j] = 0
                j += i
    total = 0
    for i in range(n):
        total += marks[i] * i + marks[-1]
    return total, marks


def truths(flags: list[bool], weights: list[float]) -> float:
    total = 0.0
    for i in range(len(flags)):
        if flags[i]:
            total += weights[i]
        flags[i] = not flags[i]
    for flag in flags:
        total += float(flag)
    return total


def one_list_twice(values: list[int]) -> int:
    other = values
    for i in range(1, len(values)):
        values[i] = values[i] + other[i - 1]
    return other[-1]


PROGRAMS = [
    (longest_chain, [(3,), (300,)]),
    (wave, [(0,), (1,), (200,)]),
    (
        every_operator,
        [
            (12, 3, -4, 0.25, -3.5),
            (9, -(2**40), 2**41 + 1, -1e3, 7.75),
            (10, 0, 0, math.inf, 1.0),
        ],
    ),
    (wraps, [(1000,)]),
    (pair, [(0,), (1001,)]),
    (is_prime, [(1,), (2,), (1000003,), (1000001,)]),
    (calls, [(50,), (1000,)]),
    (sieve, [(list(range(200)),)]),
    (truths, [([True, False] * 10, [0.5 * i for i in range(20)])]),
    (one_list_twice, [(list(range(30)),)]),
]


def divides(n: int) -> int:
    x = 0
    i = 0
    while i < n:
        x = x + n // (30 - i)
        i += 1
    return x


def reads_behind(values: list[int], n: int) -> int:
    x = 0
    for i in range(n):
        x += values[i]
    return x


def strides(n: int, step: int) -> int:
    x = 0
    for _ in range(n):
        for i in range(0, n, step):
            x += i
    return x


def raises(n: int) -> int:
    x = 0
    for i in range(n):
        if i > 20:
            raise ValueError("too far")
        x += i
    return x


def asserts(n: int) -> int:
    x = 0
    for i in range(n):
        assert i < 30, "beyond"
        x += i
    return x


def leaves(n: int) -> int:
    x = 0
    for i in range(n):
        x += math.floor(10.0 ** float(i))
    return x


def powers(n: int) -> float:
    x = 0.0
    for i in range(n):
        x += float(12 - i) ** -1.0
    return x


WRONG = [
    (divides, (40,), (20,)),
    (reads_behind, ([1] * 10, 20), ([1] * 10, 10)),
    (strides, (10, 0), (10, 2)),
    (raises, (30,), (20,)),
    (asserts, (40,), (30,)),
    (leaves, (25,), (15,)),
    (powers, (20,), (11,)),
]
