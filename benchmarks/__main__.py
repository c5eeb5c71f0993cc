"""Runs the suite and writes its table to ``benchmarks/RESULTS.md``.

python -m benchmarks [--quick] [--only overhead,training] [--out FILE]
python -m benchmarks operators [--mode tiny] [--match PATTERN] [--rows FILE]
"""

import argparse
import datetime
import importlib
import math
import os
import platform
import sys
from pathlib import Path

import torch

import rushlight
from benchmarks import operators, startup
from benchmarks.harness import Result, duration, run_group, set_threads

SUITES = (
    "overhead", "calls", "backward", "pointwise", "reductions", "contractions", "convolution",
    "attention", "factorizations", "transforms", "functions", "training", "compiled",
)  # fmt: skip


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="smaller and fewer samples"
    )
    parser.add_argument("--only", help="suites, separated by commas")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("RESULTS.md")
    )
    return parser.parse_args()


def processor() -> str:
    """What the machine calls its processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cell(result: Result, bound: float) -> str:
    """A group's ratio; bold where it is met."""
    if math.isnan(result.ratio):
        return "not run"
    text = f"{result.ratio:.2f}"
    return f"**{text}**" if result.ratio <= bound else text


def threads(count: int) -> str:
    """A number of threads in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def table(results: dict[int, list[Result]], fresh) -> list[str]:
    """The design's table: one row for each group, one column for each thread count."""
    counts = list(results)
    heads = [threads(count) for count in counts]
    lines = [
        "| what | at most | " + " | ".join(heads) + " | slowest case |",
        "| --- | --- |" + " --- |" * (len(counts) + 1),
    ]
    for rows in zip(*results.values()):
        group = rows[0].group
        cells = [cell(row, group.bound) for row in rows]
        slowest = [row.worst for row in rows if row.worst]
        worst = max(slowest, key=lambda timing: timing.ratio, default=None)
        note = f"{worst.name}: {worst.ratio:.2f}" if worst else ""
        lines.append(
            f"| {group.title} | {group.bound} | {' | '.join(cells)} | {note} |"
        )
    for row in fresh:
        value = f"{row.value:.2f}" + (f" {row.unit}" if row.absolute else "")
        bound = f"{row.bound} {row.unit}" if row.absolute else f"{row.bound}"
        shown = f"**{value}**" if row.met else value
        note = row.fault or f"{row.ours:.3g} {row.unit} to {row.theirs:.3g} {row.unit}"
        cells = [shown, *[""] * (len(counts) - 1), note]
        lines.append(f"| {row.title} | {bound} | {' | '.join(cells)} |")
    return lines


def details(results: dict[int, list[Result]]) -> list[str]:
    """Every case, the losing ones included."""
    lines = []
    for count, groups in results.items():
        for result in groups:
            lines += ["", f"### {result.group.title}, {threads(count)}", ""]
            lines.append("| case | Rushlight | PyTorch | ratio |")
            lines.append("| --- | ---: | ---: | ---: |")
            for timing in result.timings:
                if timing.fault:
                    lines.append(f"| {timing.name} | {timing.fault} | | |")
                    continue
                lines.append(
                    f"| {timing.name} | {duration(timing.ours)} | "
                    f"{duration(timing.theirs)} | {timing.ratio:.2f} |"
                )
    return lines


def report(results, fresh, quick) -> str:
    """The page of results."""
    now = datetime.datetime.now(datetime.UTC)
    head = [
        "# Speed beside PyTorch",
        "",
        f"{now:%Y-%m-%d %H:%M} UTC, {processor()}, {os.cpu_count()} cores, "
        f"{platform.system()} on {platform.machine()}, "
        f"Python {platform.python_version()}, Rushlight {rushlight.__version__}, "
        f"PyTorch {torch.__version__}"
        f"{', quick run' if quick else ''}.",
        "",
        "Time of Rushlight over time of PyTorch: medians of alternating samples in one "
        "process, and the geometric mean over a row's cases. Bold is within the bound. "
        "`make bench` makes this page.",
        "",
    ]
    return (
        "\n".join(
            [*head, *table(results, fresh), "", "## Every case", *details(results)]
        )
        + "\n"
    )


def kept_sections(page: Path) -> str:
    """What a page holds behind the cases: sections that other commands write."""
    text = page.read_text() if page.exists() else ""
    sections = text.split("\n## ")[1:]
    kept = [part for part in sections if not part.startswith("Every case")]
    return "".join(f"\n## {part.rstrip()}\n" for part in kept)


def load(name, quick):
    """A suite's groups; one that is not written yet has none."""
    return importlib.import_module(f"benchmarks.{name}").groups(quick)


def main():
    args = options()
    chosen = args.only.split(",") if args.only else [*SUITES, "startup"]
    counts = sorted({1, rushlight.get_num_threads()})
    results: dict[int, list[Result]] = {}
    groups = [g for name in SUITES if name in chosen for g in load(name, args.quick)]
    for count in counts:
        for group in groups:
            print(f"{group.title}, {threads(count)}", flush=True)
            results.setdefault(count, []).append(run_group(group, count, args.quick))
    set_threads(counts[-1])
    fresh = startup.measure(args.quick) if "startup" in chosen else []
    for row in fresh:
        numbers = f"{row.ours:.3g} {row.unit} to {row.theirs:.3g} {row.unit}"
        print(f"{row.title}: {row.fault or numbers}")
    print("\n".join(table(results, fresh)))
    args.out.write_text(report(results, fresh, args.quick) + kept_sections(args.out))


if __name__ == "__main__":
    if sys.argv[1:2] == ["operators"]:
        operators.main(sys.argv[2:])
    else:
        main()
