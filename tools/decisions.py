"""The index of the decisions, made from the first lines of their pages.

``python -m tools.decisions`` writes ``docs/decisions/README.md``; ``--check`` fails where
it is not current.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "decisions"
INDEX = FOLDER / "README.md"
TOPICS = (
    "core",
    "memory",
    "dispatch",
    "operators",
    "autograd",
    "nn",
    "random",
    "io",
    "compiler",
    "kernels",
    "runtime",
    "cuda",
    "graph",
    "export",
    "distributed",
    "testing",
    "packaging",
)
HEAD = re.compile(
    r"# (?P<number>\d{3}): (?P<title>.+)\n\n"
    r"Topic: (?P<topic>[a-z]+)  \n"
    r"Status: (?P<status>accepted|(?:superseded|amended) by \d{3}(?:, \d{3})*)  \n"
    r"Supersedes: (?P<supersedes>none|\d{3}(?:, \d{3})*)\n\n"
)


class Decision(NamedTuple):
    """What the first lines of a page say."""

    path: Path
    number: str
    title: str
    topic: str
    status: str
    supersedes: tuple[str, ...]

    @property
    def followed_by(self):
        """Numbers of the decisions that amend or supersede this one."""
        return tuple(re.findall(r"\d{3}", self.status))


def read(path):
    """The decision of a page.

    Raises:
        ValueError: its first lines do not have the title, topic, status and what it
            supersedes.
    """
    found = HEAD.match(path.read_text())
    if found is None or found["topic"] not in TOPICS:
        raise ValueError(f"{path.name}: title, Topic, Status and Supersedes come first")
    older = tuple(re.findall(r"\d{3}", found["supersedes"]))
    return Decision(
        path, found["number"], found["title"], found["topic"], found["status"], older
    )


def decisions():
    """All of them, by number."""
    return [read(path) for path in sorted(FOLDER.glob("[0-9]*.md"))]


def index_of(pages):
    """The text of the index: a table for each topic."""
    lines = [
        "# Decisions",
        "",
        "What was chosen, what was given up for it, what was measured and how it is held.",
        "`python -m tools.decisions` makes this page from the first lines of the others.",
    ]
    for topic in TOPICS:
        rows = [page for page in pages if page.topic == topic]
        if rows:
            lines += ["", f"## {topic}", "", "| number | decision | status |"]
            lines.append("| --- | --- | --- |")
        for page in rows:
            link = f"[{page.number}]({page.path.name})"
            lines.append(f"| {link} | {page.title} | {page.status} |")
    return "\n".join(lines) + "\n"


def main():
    """Writes the index, or looks whether it is current."""
    text = index_of(decisions())
    if "--check" not in sys.argv[1:]:
        INDEX.write_text(text)
    elif not INDEX.exists() or INDEX.read_text() != text:
        sys.exit("docs/decisions/README.md is stale: python -m tools.decisions")


if __name__ == "__main__":
    main()
