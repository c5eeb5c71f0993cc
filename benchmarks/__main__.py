"""Runs the suite, keeps its rows and writes the table to ``benchmarks/RESULTS.md``.

python -m benchmarks [--quick] [--only overhead,training] [--target v3] [--out FILE]
python -m benchmarks operators [--target v3] [--mode tiny] [--match PATTERN] [--rows FILE]
"""

import argparse
import datetime
import gc
import importlib
import sys
from pathlib import Path

from benchmarks import hidden_instructions, levels

SUITES = (
    "overhead", "calls", "backward", "pointwise", "reductions", "contractions", "convolution",
    "attention", "factorizations", "transforms", "functions", "training", "architectures",
    "compiled", "compiled_functions", "open_sizes", "scripts", "quantized", "compact", "profiling",
)  # fmt: skip


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="smaller and fewer samples"
    )
    parser.add_argument("--only", help="suites, separated by commas")
    parser.add_argument(
        "--target", choices=levels.LEVELS, help="hold both libraries to this level"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("RESULTS.md")
    )
    return parser.parse_args()


def hold(level) -> str:
    """Holds this process to a level; what is not held by it, in words."""
    levels.hold(level)
    hidden = hidden_instructions.hide(level)
    return "" if hidden else " (but for ONNX Runtime and OpenVINO)"


def load(name, quick):
    """A suite's groups; one that is not written yet has none."""
    return importlib.import_module(f"benchmarks.{name}").groups(quick)


def main():
    args = options()
    exempt = hold(args.target) if args.target else ""
    import rushlight
    from benchmarks import distributed, page, serving, startup
    from benchmarks.harness import run_group, set_threads

    level, where = levels.facts(exempt)
    print(where, flush=True)
    now = datetime.datetime.now(datetime.UTC)
    quick = ", quick run" if args.quick else ""
    run = page.Run(level, f"{now:%Y-%m-%d}, {where}{quick}")
    processes = ["startup", "distributed", "serving"]  # of processes of their own
    chosen = args.only.split(",") if args.only else [*SUITES, *processes]
    counts = sorted({1, rushlight.get_num_threads()})
    groups = [g for name in SUITES if name in chosen for g in load(name, args.quick)]
    rows = []
    gc.collect()
    gc.freeze()  # what imports have made is not looked through before each case
    for count in counts:
        for group in groups:
            print(f"{group.title}, {page.threads(count)}", flush=True)
            result = run_group(group, count, args.quick)
            rows.append(page.row_of(result, count, run))
    set_threads(counts[-1])
    fresh = startup.measure(args.quick) if "startup" in chosen else []
    fresh += distributed.rows(args.quick) if "distributed" in chosen else []
    fresh += serving.rows(args.quick) if "serving" in chosen else []
    rows += [page.row_of_fresh(row, run) for row in fresh]
    print("\n".join(page.table({level: rows})))
    page.keep(rows, level)
    page.write(args.out)


def operators():
    """The sweep over operators, at the level that is asked for."""
    arguments = sys.argv[2:]
    if "--target" in arguments:
        at = arguments.index("--target")
        hold(arguments[at + 1])
        del arguments[at : at + 2]
    print(levels.facts()[1])
    importlib.import_module("benchmarks.operators").main(arguments)


if __name__ == "__main__":
    if sys.argv[1:2] == ["operators"]:
        operators()
    else:
        main()
