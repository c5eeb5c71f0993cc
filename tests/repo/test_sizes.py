"""Files stay small enough to be one idea each."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("rushlight", "opgen", "benchmarks", "tools", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "_generated" not in path.parts
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_file_has_at_most_a_thousand_lines(path):
    assert len(path.read_text().splitlines()) <= 1000
