"""Errors beside PyTorch's, in units in the last place: ``python -m benchmarks.accuracy``.

Columns are of levels of x86-64, which both libraries are held to (``--target v3``).
Both libraries answer the same arguments; the exact values come from wider types: float64
for float32 and the half formats, the C library's long double or mpmath for float64. The
unit is the distance between neighbouring numbers at the exact value, so a correctly
rounded function has an error of 0.5. ``inf`` says that one result is special where the
exact one is not, or the other way round.
"""

import argparse
import json
import math
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import mpmath
import numpy as np
import scipy.special
import torch

import rushlight
from benchmarks import accuracy_sums, levels

FRACTION = {"float32": 23, "float64": 52, "float16": 10, "bfloat16": 7}
LEAST_EXPONENT = {"float32": -126, "float64": -1022, "float16": -14, "bfloat16": -126}


@dataclass
class Row:
    """One line of the table.

    Attributes:
        name: what was computed, and of what.
        ours: the largest error of Rushlight.
        theirs: the largest error of PyTorch.
        place: the argument of our largest error.
    """

    name: str
    ours: float
    theirs: float
    place: str = ""

    @property
    def worse(self) -> bool:
        """Whether ours is larger, beyond what another rounding makes."""
        return not self.ours <= max(1.1 * self.theirs, self.theirs + 0.1)


def units(got, exact, dtype):
    """Errors in units in the last place of the format."""
    exact = np.asarray(exact)
    got = got.astype(exact.dtype)
    bits, least = FRACTION[dtype], LEAST_EXPONENT[dtype]
    size = abs(exact)
    finite = np.isfinite(size)
    exponent = np.frexp(np.where(finite & (size > 0), size, 1))[1] - 1
    exponent = np.where(size > 0, np.maximum(exponent, least), least)
    unit = np.ldexp(np.ones_like(size), exponent - bits)
    error = np.where(finite & np.isfinite(got), abs(got - exact) / unit, np.inf)
    top = rounding_limit(dtype)
    overflows = np.isinf(got) & (size >= top) & (np.sign(got) == np.sign(exact))
    same = (got == exact) | (np.isnan(got) & np.isnan(exact)) | overflows
    return np.where(same, 0.0, error).astype("float64")


def rounding_limit(dtype):
    """The size from which numbers round to infinity, less half a unit."""
    if dtype == "float64":
        return np.finfo("float64").max
    return float(torch.finfo(getattr(torch, dtype)).max)


def double_of(name):
    """A function in float64."""
    plain = {
        "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-abs(x))),
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "lgamma": scipy.special.gammaln,
        "digamma": digamma,
        "i0": scipy.special.i0,
        "special.i0e": scipy.special.i0e,
        "special.i1": scipy.special.i1,
        "special.i1e": scipy.special.i1e,
        "special.ndtri": scipy.special.ndtri,
        "special.erfcx": scipy.special.erfcx,
        "special.bessel_j0": scipy.special.j0,
        "special.bessel_j1": scipy.special.j1,
        "special.bessel_y0": scipy.special.y0,
        "special.bessel_y1": scipy.special.y1,
        "special.modified_bessel_k0": scipy.special.k0,
        "special.modified_bessel_k1": scipy.special.k1,
        "special.airy_ai": lambda x: scipy.special.airy(x)[0],
        "sinc": np.sinc,
        "logit": lambda x: np.log(x) - np.log1p(-x),
        "deg2rad": np.deg2rad,
        "rad2deg": np.rad2deg,
        "special.ndtr": scipy.special.ndtr,
        "special.log_ndtr": scipy.special.log_ndtr,
        "special.entr": scipy.special.entr,
        "reciprocal": lambda x: 1 / x,
        "square": np.square,
        "frac": lambda x: x - np.trunc(x),
        "nn.functional.silu": lambda x: x * scipy.special.expit(x),
        "nn.functional.softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))),
        "nn.functional.mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
        "nn.functional.gelu": lambda x: x * scipy.special.ndtr(x),
        "nn.functional.elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "nn.functional.logsigmoid": scipy.special.log_expit,
        "nn.functional.tanhshrink": lambda x: x - np.tanh(x),
    }
    inverse = {
        "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
        "acosh": "arccosh", "atanh": "arctanh",
    }  # fmt: skip
    if name in plain:
        return plain[name]
    if name in ("erf", "erfc", "erfinv"):
        return getattr(scipy.special, name)
    return getattr(np, inverse.get(name, name))


def digamma(x):
    """SciPy's, with the infinity at zero."""
    return np.where(x == 0, np.copysign(np.inf, -x), scipy.special.digamma(x))


ELEMENTARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "rsqrt",
    "sigmoid", "reciprocal", "square", "frac", "deg2rad", "rad2deg",
)  # fmt: skip
SPECIAL = (
    "erf", "erfc", "erfinv", "lgamma", "digamma", "sinc", "logit",
    "i0", "special.i0e", "special.i1", "special.i1e", "special.ndtr", "special.ndtri",
    "special.log_ndtr", "special.erfcx", "special.entr", "special.bessel_j0",
    "special.bessel_j1", "special.bessel_y0", "special.bessel_y1",
    "special.modified_bessel_k0", "special.modified_bessel_k1", "special.airy_ai",
)  # fmt: skip
# What PyTorch has not for the half formats.
WITHOUT_HALVES = {
    "special.ndtr", "special.ndtri", "special.log_ndtr", "special.erfcx",
    "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1",
    "special.modified_bessel_k0", "special.modified_bessel_k1", "special.airy_ai",
}  # fmt: skip
ACTIVATIONS = tuple(
    f"nn.functional.{name}"
    for name in (
        "silu", "softplus", "mish", "gelu", "elu", "logsigmoid", "tanhshrink",
    )
)  # fmt: skip


def found(library, name):
    """A function by its dotted name, or None where the library lacks it."""
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def answers(name, *arguments, dtype=None):
    """Both libraries' results as wide arrays."""
    results = []
    for library in (rushlight, torch):
        tensors = [library.from_numpy(np.ascontiguousarray(a)) for a in arguments]
        if dtype is not None:
            tensors = [t.to(getattr(library, dtype)) for t in tensors]
        result = found(library, name)(*tensors)
        results.append(result.to(library.float64).numpy())
    return results


def compared(title, name, exact, *arguments, dtype, keep=None):
    """The row of a function on some arguments."""
    stored = dtype if dtype in ("float16", "bfloat16") else None
    mine, theirs = answers(name, *arguments, dtype=stored)
    errors = [units(values, exact, dtype) for values in (mine, theirs)]
    if keep is not None:
        errors = [np.where(keep, error, 0) for error in errors]
    worst = int(errors[0].argmax())
    place = ", ".join(f"{a.ravel()[worst]:.9g}" for a in arguments)
    place += f" -> {mine.ravel()[worst]:.9g} for {float(exact.ravel()[worst]):.9g}"
    return Row(f"{title}", float(errors[0].max()), float(errors[1].max()), place)


def float32_points(stride):
    """Bit patterns of every size, and the ranges where functions bend."""
    patterns = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32)
    rng = np.random.default_rng(0)
    near = np.concatenate([
        rng.uniform(-1, 1, 1 << 16), rng.uniform(-10, 10, 1 << 16),
        rng.uniform(-150, 150, 1 << 15), 1 + rng.standard_normal(1 << 15) * 1e-2,
    ])  # fmt: skip
    return np.concatenate([patterns.view(np.float32), near.astype(np.float32)])


def float64_points(count):
    """As for float32, fewer: exact values cost more here."""
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)
    return np.concatenate([
        patterns, rng.uniform(-1, 1, count), rng.uniform(-10, 10, count),
        rng.uniform(-800, 800, count), 1 + rng.standard_normal(count) * 1e-2,
        np.exp(rng.uniform(-20, 40, count)),
        [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308],
        [1e22, 1e300, 6381956970095103.0 * 2.0**797],
    ])  # fmt: skip


def long_double(name, x):
    """An elementary function of float64 numbers in the C library's widest type."""
    wide = x.astype(np.longdouble)
    if name in ("deg2rad", "rad2deg"):
        half_turn = np.longdouble("3.14159265358979323846264338327950288")
        return wide * (half_turn / 180 if name == "deg2rad" else 180 / half_turn)
    if name in ("sin", "cos", "tan"):
        return np.array([circular(name, v) for v in x], dtype=np.longdouble)
    return double_of(name)(wide)


def circular(name, v):
    """By mpmath: the C library's long double can't reduce every angle as exactly."""
    if not math.isfinite(v):
        return np.longdouble("nan")
    with mpmath.workprec(1200 if abs(v) > 1e9 else 120):
        return np.longdouble(mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(v)), 25))


EXACT = {
    "lgamma": lambda v: mpmath.log(abs(mpmath.gamma(v))) if abs(v) < 1e5 else
    mpmath.re(mpmath.loggamma(v)),
    "digamma": mpmath.digamma,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erfinv": mpmath.erfinv,
    "sinc": lambda v: mpmath.sincpi(v),
    "logit": lambda v: mpmath.log(v / (1 - v)),
    "i0": lambda v: mpmath.besseli(0, v),
    "special.i0e": lambda v: mpmath.besseli(0, v) * mpmath.exp(-abs(v)),
    "special.i1": lambda v: mpmath.besseli(1, v),
    "special.i1e": lambda v: mpmath.besseli(1, v) * mpmath.exp(-abs(v)),
    "special.ndtr": mpmath.ncdf,
    "special.ndtri": lambda v: mpmath.sqrt(2) * mpmath.erfinv(2 * v - 1),
    "special.erfcx": lambda v: mpmath.exp(v * v) * mpmath.erfc(v),
    "special.bessel_j0": lambda v: mpmath.besselj(0, v),
    "special.bessel_j1": lambda v: mpmath.besselj(1, v),
    "special.bessel_y0": lambda v: mpmath.bessely(0, v),
    "special.bessel_y1": lambda v: mpmath.bessely(1, v),
    "special.modified_bessel_k0": lambda v: mpmath.besselk(0, v),
    "special.modified_bessel_k1": lambda v: mpmath.besselk(1, v),
    "special.airy_ai": mpmath.airyai,
    "special.log_ndtr": lambda v: mpmath.log(mpmath.ncdf(v)),
    "special.entr": lambda v: -v * mpmath.log(v),
}  # fmt: skip


def by_mpmath(name, x):
    """A special function of float64 numbers; NaN where it isn't real or ends badly."""
    values = []
    with mpmath.workdps(40):
        for v in x:
            try:
                value = EXACT[name](mpmath.mpf(float(v)))
                text = (
                    "nan" if isinstance(value, mpmath.mpc) else mpmath.nstr(value, 25)
                )
                values.append(np.longdouble(text.replace("+inf", "inf")))
            except (ValueError, ZeroDivisionError, OverflowError, NotImplementedError):
                values.append(np.longdouble("nan"))
    return np.array(values)


def single_rows(names, quick):
    """Every function of one float32 number."""
    x = float32_points(65521 if quick else 4093)
    wide = x.astype(np.float64)
    for name in names:
        # SciPy's Bessel functions lose the phase of far numbers.
        keep = abs(x) < 1e5 if "bessel" in name else None
        exact = double_of(name)(wide)
        yield compared(f"{name} float32", name, exact, x, dtype="float32", keep=keep)


def double_rows(names, quick):
    """Every function of one float64 number."""
    x = float64_points(300 if quick else 2000)
    few = float64_points(60 if quick else 300)
    for name in names:
        if name in ELEMENTARY:
            exact = long_double(name, x)
            yield compared(f"{name} float64", name, exact, x, dtype="float64")
        elif name in EXACT:
            size = abs(few)
            usual = few[(size < 200) & (size > 1e-200)]
            exact = by_mpmath(name, usual)
            keep = ~np.isnan(exact)
            yield compared(
                f"{name} float64", name, exact, usual, dtype="float64", keep=keep
            )


def half_rows(names):
    """Every function of all the 65,536 numbers of both half formats."""
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    for dtype in ("float16", "bfloat16"):
        kind = torch.from_numpy(patterns).view(getattr(torch, dtype))
        x = kind.to(torch.float32).numpy()
        for name in names:
            if name in WITHOUT_HALVES or found(torch, name) is None:
                continue
            exact = double_of(name)(x.astype(np.float64))
            yield compared(f"{name} {dtype}", name, exact, x, dtype=dtype)


PAIRS = {
    "pow": np.power,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": lambda x, y: np.floor_divide(x, y),
    "xlogy": scipy.special.xlogy,
    "special.xlog1py": scipy.special.xlog1py,
    "div": np.divide,
}


def pair_rows(quick):
    """Functions of two numbers, in ranges where results are finite."""
    rng = np.random.default_rng(2)
    count = 1 << (12 if quick else 17)
    for dtype, wide in (("float32", "float64"), ("float64", "longdouble")):
        spread = 30 if dtype == "float32" else 200
        x = np.concatenate(
            [rng.uniform(-20, 20, count), np.exp(rng.uniform(-spread, spread, count))]
        ).astype(dtype)
        y = np.concatenate(
            [rng.uniform(-20, 20, count), rng.uniform(-3, 3, count)]
        ).astype(dtype)
        for name, function in PAIRS.items():
            if dtype == "float64" and "xlog" in name:
                continue
            exact = function(x.astype(wide), y.astype(wide))
            yield compared(f"{name} {dtype}", name, exact, x, y, dtype=dtype)


def gather(quick, only):
    """All rows, section by section."""
    names = (*ELEMENTARY, *SPECIAL)
    present = [n for n in names if found(rushlight, n) and found(torch, n)]
    activations = [n for n in ACTIVATIONS if found(rushlight, n)]
    sections = {
        "float32": lambda: single_rows((*present, *activations), quick),
        "float64": lambda: double_rows(present, quick),
        "half": lambda: half_rows((*present, *activations)),
        "pairs": lambda: pair_rows(quick),
        "sums": lambda: accuracy_sums.rows(Row, quick),
    }
    for section, rows in sections.items():
        if only is None or section in only:
            yield section, list(rows())


def cell(error):
    """An error to three digits."""
    return f"{error:.3g}"


ROWS = Path(__file__).parent / "results" / "accuracy"


def kept() -> dict:
    """The rows that runs have left: by level, section and name."""
    files = sorted(ROWS.glob("*.json"), reverse=True)
    return {file.stem: json.loads(file.read_text()) for file in files}


def keep(level, where, sections):
    """Puts a run's rows in the place of those of its sections.

    Args:
        level: that both libraries were held to.
        where: the processor and the versions, in words.
        sections: pairs of a title and rows.
    """
    held = kept().get(level, {"sections": {}})
    held["made"] = where
    for section, rows in sections:
        held["sections"][section] = {row.name: [row.ours, row.theirs] for row in rows}
    text = json.dumps(held, indent=1)
    ROWS.mkdir(exist_ok=True, parents=True)
    (ROWS / f"{level}.json").write_text(text + "\n")


def page():
    """The tables of all levels as text."""
    runs = kept()
    lines = ["# Errors beside PyTorch", ""]
    lines += [f"- {level}: {run['made']}" for level, run in runs.items()]
    lines += ["", __doc__.split("\n\n", 1)[1].strip(), ""]
    columns = "".join(f" Rushlight, {level} | PyTorch, {level} |" for level in runs)
    for section in dict.fromkeys(s for run in runs.values() for s in run["sections"]):
        tables = [run["sections"].get(section, {}) for run in runs.values()]
        lines += [f"## {section}", "", f"| what |{columns}"]
        lines += ["| --- |" + " ---: | ---: |" * len(runs)]
        for name in dict.fromkeys(name for table in tables for name in table):
            cells = [
                text
                for table in tables
                for text in both_cells(*table.get(name, (math.nan, math.nan)))
            ]
            lines.append(f"| {' | '.join([name, *cells])} |")
        lines.append("")
    return "\n".join(lines)


def both_cells(ours, theirs):
    """Two errors; ours is bold where it is not worse."""
    mine = cell(ours)
    return mine if Row("", ours, theirs).worse else f"**{mine}**", cell(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer arguments")
    parser.add_argument("--only", help="sections, separated by commas")
    parser.add_argument(
        "--target", choices=levels.LEVELS, help="hold both libraries to this level"
    )
    parser.add_argument(
        "--page", action="store_true", help="keep the rows, and write ACCURACY.md"
    )
    args = parser.parse_args()
    if args.target:
        levels.hold(args.target, "benchmarks.accuracy")
    only = args.only.split(",") if args.only else None
    sections = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for section, rows in gather(args.quick, only):
            sections.append((section, rows))
            for row in rows:
                mark = "WORSE" if row.worse else ""
                print(
                    f"{row.name:44} {cell(row.ours):>10} {cell(row.theirs):>10} {mark}"
                )
                if row.worse and row.place:
                    print(f"{'':8}{row.place}")
    if args.page:
        keep(*levels.facts(), sections)
        Path(__file__).with_name("ACCURACY.md").write_text(page())
    worse = [row.name for _, rows in sections for row in rows if row.worse]
    print(f"{len(worse)} rows are worse than PyTorch's")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
