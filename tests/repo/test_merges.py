"""No merge is left half done."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^(<{7} |>{7} |={7}$)", re.MULTILINE)


def test_no_page_or_source_keeps_the_marks_of_a_merge():
    folders = ("rushlight", "opgen", "tests", "tools", "docs", "benchmarks", "examples")
    files = [path for path in ROOT.glob("*") if path.is_file()]
    files += [path for folder in folders for path in (ROOT / folder).rglob("*")]
    kinds = (".py", ".pxd", ".md", ".yaml", ".toml", ".txt")
    texts = [path for path in files if path.suffix in kinds]
    assert texts
    assert not [str(path) for path in texts if MARK.search(path.read_text())]
