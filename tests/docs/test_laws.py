"""The page of laws names every law, and only laws that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "laws.md"
NAMED = {
    (PAGE.parent / path).resolve()
    for path in re.findall(r"\]\(([^)]+)\)", PAGE.read_text())
}


def test_what_the_page_names_is_there():
    assert [str(path) for path in NAMED if not path.exists()] == []


def test_every_law_has_a_row():
    laws = set((ROOT / "tests" / "laws").glob("test_*.py"))
    missing = sorted(path.name for path in laws - NAMED)
    assert missing == [], "give these a row in docs/laws.md"
