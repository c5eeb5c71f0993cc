"""Every page runs from its first line to its last, and its links lead somewhere."""

import re

import pytest

from tools.doctests import FENCE, ROOT, Page, pages

ALL = pages()
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MENTION = re.compile(
    r"`((?:rushlight|opgen|tests|tools|examples|benchmarks|docs)/[^`*< ]+)`"
)


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("path", ALL, ids=name)
def test_examples_of_the_page_run_and_print_what_it_says(path):
    page = Page(path).run()
    hint = f"if this is as it should be: tools/docs --write {name(path)}"
    assert not page.faults, "\n".join([*page.faults, hint])


@pytest.mark.parametrize("path", ALL, ids=name)
def test_links_of_the_page_lead_to_files(path):
    targets = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    missing = [link for link in targets if not (path.parent / link).exists()]
    # The build and the benchmarks write these.
    missing = [link for link in missing if "reference" not in link]
    assert not missing


@pytest.mark.parametrize("path", ALL, ids=name)
def test_files_that_the_page_names_exist(path):
    named = MENTION.findall(FENCE.sub("", path.read_text()))
    missing = [place for place in named if not (ROOT / place.split(":")[0]).exists()]
    # The build writes these.
    built = ("_generated", "docs/reference")
    assert not [p for p in missing if not any(part in p for part in built)]


@pytest.mark.parametrize("path", ALL, ids=name)
def test_lines_of_the_page_fit(path):
    prose = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 95 and "|" not in line]
    assert not long


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text()
    index += (ROOT / "docs" / "decisions" / "README.md").read_text()
    left_out = [
        name(page)
        for page in ALL
        if page.parent.parent == ROOT / "docs" and page.name not in index
    ]
    assert not left_out


def test_a_page_that_prints_something_else_fails_and_can_be_rewritten(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("```python\nx = 20\n```\n\n```python\n>>> x + 1\n22\n\n```\n")
    page = Page(path).run()
    assert "Expected:\n    22\nGot:\n    21" in page.faults[0]
    assert page.rewritten() == path.read_text().replace("22", "21")


def test_a_block_that_raises_or_warns_fails(tmp_path):
    path = tmp_path / "page.md"
    for code in ("1 / 0", "import warnings; warnings.warn('old')"):
        path.write_text(f"```python\n{code}\n```\n")
        assert len(Page(path).run().faults) == 1
