"""What the pages show as a change is in the files, word for word."""

import re

import pytest

from tools.doctests import ROOT

PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "guides" / "add_an_operator.md"]
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def additions(diff):
    """Pairs of file name and added text, one for each file of a diff."""
    for part in re.split(r"^--- .*\n", diff, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        lines = [line.removeprefix("+") for line in body.splitlines()]
        yield head.removeprefix("+++ b/"), "\n".join(lines).strip("\n") + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_diffs_of_the_page_are_what_the_files_have(page):
    found = [
        pair for diff in DIFF.findall(page.read_text()) for pair in additions(diff)
    ]
    assert found
    stale = [name for name, text in found if text not in (ROOT / name).read_text()]
    assert not stale


def test_the_version_in_the_changes_is_the_one_of_the_package():
    import rushlight

    newest = re.search(
        r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    project = (ROOT / "pyproject.toml").read_text()
    assert newest[1] == rushlight.__version__
    assert f'version = "{rushlight.__version__}"' in project
