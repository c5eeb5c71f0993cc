"""The page of results, made of the rows that runs at each level have left.

Rows are kept in ``benchmarks/results``, a file for each level: a run replaces those that it
measures, so a table is made suite by suite where a machine is quiet for minutes at a time.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Result, duration
from benchmarks.startup import Measured

ROWS = Path(__file__).with_name("results")
INTRODUCTION = (
    "Time of Rushlight over time of PyTorch: medians of alternating samples in one process, "
    "and the geometric mean over a row's cases. Bold is within the bound. `make bench` makes "
    "this page, and `python -m benchmarks --target v3` its columns of AVX2: both libraries "
    "are then held to that level of x86-64."
)


@dataclass(frozen=True)
class Run:
    """What is true of all rows of one run.

    Attributes:
        level: of x86-64, or the target's name.
        made: when, where and with which versions, as the page says it.
    """

    level: str
    made: str


def row_of(result: Result, threads: int, run: Run) -> dict:
    """A group's timings as they are kept."""
    return {
        "title": result.group.title,
        "threads": threads,
        "bound": result.group.bound,
        "made": run.made,
        "cases": [
            {
                "name": timing.name,
                "ours": timing.ours,
                "theirs": timing.theirs,
                "fault": timing.fault,
            }
            for timing in result.timings
        ],
    }


def row_of_fresh(row: Measured, run: Run) -> dict:
    """A measurement of fresh processes as it is kept."""
    note = row.fault or f"{row.ours:.3g} {row.unit} to {row.theirs:.3g} {row.unit}"
    unit = row.unit if row.absolute else ""
    return {
        "title": row.title, "threads": 0, "bound": row.bound, "made": run.made,
        "value": row.value, "unit": unit, "note": note,
    }  # fmt: skip


def key_of(row: dict) -> tuple:
    """What a row replaces."""
    return row["title"], row["threads"]


def keep(rows: list[dict], level: str, folder: Path = ROWS) -> None:
    """Puts rows into a level's file, in place of those of the same title and threads."""
    file = folder / f"{level}.json"
    before = json.loads(file.read_text()) if file.exists() else []
    fresh = {key_of(row): row for row in rows}
    kept = [fresh.pop(key_of(row), row) for row in before]
    folder.mkdir(exist_ok=True)
    file.write_text(json.dumps([*kept, *fresh.values()], indent=1) + "\n")


def kept(folder: Path = ROWS) -> dict[str, list[dict]]:
    """The rows of every level, the widest first."""
    files = sorted(folder.glob("*.json"), reverse=True)
    return {file.stem: json.loads(file.read_text()) for file in files}


def ratio_of(row: dict) -> float:
    """The geometric mean over a row's cases, or its value."""
    if "value" in row:
        return row["value"]
    good = [math.log(c["ours"] / c["theirs"]) for c in row["cases"] if not c["fault"]]
    return math.exp(sum(good) / len(good)) if good else math.nan


def cell(row: dict | None) -> str:
    """A row's ratio; bold where it is within the bound."""
    if row is None:
        return ""
    ratio = ratio_of(row)
    if math.isnan(ratio):
        return "not run"
    text = f"{ratio:.2f} {row.get('unit', '')}".rstrip()
    return f"**{text}**" if ratio <= row["bound"] else text


def slowest(rows: list[dict]) -> str:
    """The case that loses most, or what there is to say of a row of fresh processes."""
    if any("note" in row for row in rows):
        return "; ".join(dict.fromkeys(row["note"] for row in rows))
    cases = [
        (case["ours"] / case["theirs"], case["name"])
        for row in rows
        for case in row["cases"]
        if not case["fault"]
    ]
    return "{1}: {0:.2f}".format(*max(cases)) if cases else ""


def table(levels: dict[str, list[dict]]) -> list[str]:
    """One line for each title, one column for each level and number of threads."""
    counts = {
        level: sorted({row["threads"] for row in rows} - {0}) or [1]
        for level, rows in levels.items()
    }
    columns = [(level, count) for level in levels for count in counts[level]]
    heads = [f"{level}, {threads(count)}" for level, count in columns]
    lines = [
        "| what | at most | " + " | ".join(heads) + " | slowest case |",
        "| --- | --- |" + " --- |" * (len(columns) + 1),
    ]
    titles = dict.fromkeys(row["title"] for rows in levels.values() for row in rows)
    for title in titles:
        found = {
            (level, row["threads"] or counts[level][0]): row
            for level, rows in levels.items()
            for row in rows
            if row["title"] == title
        }
        row = next(iter(found.values()))
        bound = f"{row['bound']} {row.get('unit', '')}".rstrip()
        cells = [cell(found.get(column)) for column in columns]
        lines.append(
            f"| {title} | {bound} | {' | '.join(cells)} | {slowest([*found.values()])} |"
        )
    return lines


def details(levels: dict[str, list[dict]]) -> list[str]:
    """Every case, the losing ones included and in bold."""
    lines = []
    for level, rows in levels.items():
        for row in rows:
            if "cases" not in row:
                continue
            lines += ["", f"### {row['title']}, {level}, {threads(row['threads'])}", ""]
            lines += ["| case | Rushlight | PyTorch | ratio |"]
            lines += ["| --- | ---: | ---: | ---: |"]
            lines += map(line_of, row["cases"])
    return lines


def line_of(case: dict) -> str:
    """One case; its ratio is bold where the other library wins."""
    if case["fault"]:
        return f"| {case['name']} | {case['fault']} | | |"
    ratio = case["ours"] / case["theirs"]
    shown = f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"
    ours, theirs = duration(case["ours"]), duration(case["theirs"])
    return f"| {case['name']} | {ours} | {theirs} | {shown} |"


def threads(count: int) -> str:
    """A number of threads in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def made(levels: dict[str, list[dict]]) -> list[str]:
    """When and where the rows of each level were made: every run that any is from."""
    return [
        f"- {level}: {text}"
        for level, rows in levels.items()
        for text in sorted({row["made"] for row in rows})
    ]


def page(levels: dict[str, list[dict]]) -> str:
    """The page, without what other commands write behind it."""
    head = ["# Speed beside PyTorch", "", *made(levels), "", INTRODUCTION, ""]
    return "\n".join([*head, *table(levels), "", "## Every case", *details(levels), ""])


def kept_sections(file: Path) -> str:
    """What a page holds behind the cases: sections that other commands write."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    sections = text.split("\n## ")[1:]
    others = [part for part in sections if not part.startswith("Every case")]
    return "".join(f"\n## {part.rstrip()}\n" for part in others)


def write(file: Path, folder: Path = ROWS) -> None:
    """Makes the page again of what is kept."""
    file.write_text(page(kept(folder)) + kept_sections(file), encoding="utf-8")
