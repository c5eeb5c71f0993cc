"""What hot loops cost on cores that are not at hand: ``python -m benchmarks.static_throughput``.

Each kernel's innermost loop is compiled for a level and given to ``llvm-mca``, which knows
how many instructions of each kind a core begins in a cycle and how long they take, and takes
all that is loaded for found in the first-level cache. Numbers are of 16 elements of a
result, of a product 16 multiply-adds: how many instructions, and cycles of each core.
Blocks that hardly any element needs are counted where they lie within a loop.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from rushlight.codegen import toolchain
from rushlight.codegen.emit import llvm
from rushlight.codegen.lower import lower
from rushlight.codegen.schedule.contraction import matrix_tile
from rushlight.codegen.target import named, using
from rushlight.ir.expr import Type
from rushlight.kernels.matmul import contraction
from rushlight.operators.elementwise import activation, binary, unary

ANALYSERS = "llvm-mca", *(f"llvm-mca-{version}" for version in range(24, 15, -1))
# What a loop is compiled for, and the cores that it is timed for.
CORES = {
    "x86-64-v4": ("icelake-server", "znver4"),
    "x86-64-v3": ("skylake", "znver3"),
    "neoverse-n1": ("neoverse-n1", "neoverse-v2", "apple-m1"),
}
ELEMENTWISE = {
    "add": (binary.add, 2, "float32", ()),
    "exp": (unary.exp, 1, "float32", ()),
    "log": (unary.log, 1, "float32", ()),
    "tanh": (unary.tanh, 1, "float32", ()),
    "erf": (unary.erf, 1, "float32", ()),
    "sin": (unary.sin, 1, "float32", ()),
    "gelu": (activation.gelu, 1, "float32", ("none",)),
    "exp, bfloat16": (unary.exp, 1, "bfloat16", ()),
    "gelu, bfloat16": (activation.gelu, 1, "bfloat16", ("none",)),
    "exp, float64": (unary.exp, 1, "float64", ()),
    "log, float64": (unary.log, 1, "float64", ()),
}
PRODUCTS = {"product": "float32", "product, float64": "float64"}
TURNS = 200  # of a loop
VECTOR = re.compile(r"%[xyz]mm|\bv\d+\.\d")
FUSED = re.compile(r"\s(vfn?madd|fmla)")


def analyser():
    """The name of an ``llvm-mca`` that knows these cores, or None."""
    return next(filter(shutil.which, reversed(ANALYSERS)), None)


def loop_of(assembly, wanted=VECTOR):
    """The innermost loop with the most instructions of a kind: its lines of assembly."""
    lines = assembly.splitlines()
    places = {line[:-1]: n for n, line in enumerate(lines) if line.startswith(".L")}
    loops = []
    for n, line in enumerate(lines):
        jump = re.match(r"\s+(?:j\w+|b\.\w+|cbn?z|tbn?z)\s.*?(\.L\w+)$", line)
        if jump and places.get(jump[1], n) < n:
            loops.append((places[jump[1]], n))
    inner = [
        (start, end)
        for start, end in loops
        if not any(start <= a and b <= end and (a, b) != (start, end) for a, b in loops)
    ]
    bodies = [
        [line for line in lines[start : end + 1] if re.match(r"\s+[a-z]", line)]
        for start, end in inner
    ]
    return max(bodies, key=lambda body: sum(map(bool, map(wanted.search, body))))


def elementwise(front, arity, dtype, static):
    """The loop of an elementwise kernel, and the elements of a turn."""
    compute = "float32" if dtype == "bfloat16" else dtype
    function = front.lowered((dtype,) * arity, (dtype,), compute, static)
    steps = re.findall(r"rolled\(.*, (\d+)\)", str(function))
    return loop_of(assembly_of(llvm.emit(function))), max(map(int, steps))


def product(dtype, target):
    """The loop of a tile of a product, and the multiply-adds of a turn."""
    tile = matrix_tile(dtype, target)
    written = contraction.product("product", *[Type(dtype)] * 3, tile)
    body = loop_of(assembly_of(llvm.emit(lower(written))), FUSED)
    lanes = target.vector_bytes // (4 if dtype == "float32" else 8)
    return body, lanes * sum(map(bool, map(FUSED.search, body)))


def assembly_of(text):
    """The machine code of a module as text."""
    return toolchain.compile_ir(text, inspect=True).assembly


def cycles(body, target, core):
    """Cycles of one turn of a loop on a core."""
    triple = target.triple.split("-")[0]
    found = subprocess.run(
        [analyser(), f"-mtriple={triple}", f"-mcpu={core}", f"-iterations={TURNS}"],
        input="\n".join(body), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(re.search(r"Total Cycles:\s+(\d+)", found.stdout)[1]) / TURNS


def row(make, argument):
    """Instructions and cycles of 16 elements, target by target."""
    cells = []
    for name, cores in CORES.items():
        target = named(name)
        with using(target):
            body, elements = make(argument, target)
        share = 16 / elements
        cells.append(f"{len(body) * share:.1f}")
        cells += [f"{cycles(body, target, core) * share:.1f}" for core in cores]
    return cells


def page() -> str:
    """The table as text."""
    heads = [
        head
        for name, cores in CORES.items()
        for head in (f"instructions, {name}", *cores)
    ]
    lines = ["# Hot loops on other cores", "", __doc__.split("\n\n", 1)[1].strip(), ""]
    lines += [f"| loop | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for title, kind in ELEMENTWISE.items():
        lines.append(
            f"| {title} | {' | '.join(row(lambda k, _: elementwise(*k), kind))} |"
        )
    for title, dtype in PRODUCTS.items():
        lines.append(f"| {title} | {' | '.join(row(product, dtype))} |")
    return "\n".join(lines) + "\n"


def main():
    """Prints the table, and keeps it beside this file."""
    if analyser() is None:
        sys.exit("llvm-mca is not on the path: it comes with LLVM's own tools")
    text = page()
    print(text)
    Path(__file__).with_name("THROUGHPUT.md").write_text(text)


if __name__ == "__main__":
    main()
