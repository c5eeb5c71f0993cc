"""Decisions have a topic and a status, and their index is current."""

import pytest

from tools.decisions import INDEX, decisions, index_of, read


def test_the_index_of_decisions_is_current():
    assert INDEX.read_text() == index_of(decisions()), "run python -m tools.decisions"


def test_numbers_of_decisions_are_unique_and_those_of_their_files():
    pages = decisions()
    assert len({page.number for page in pages}) == len(pages)
    assert [p.path.name for p in pages if p.path.name[:4] != f"{p.number}-"] == []


def test_a_superseding_pair_points_both_ways():
    said = {
        (newer, page.number)
        for page in decisions()
        if page.status.startswith("superseded")
        for newer in page.followed_by
    }
    assert said == {
        (page.number, old) for page in decisions() for old in page.supersedes
    }


def test_decisions_that_amend_others_exist():
    pages = decisions()
    numbers = {page.number for page in pages}
    lost = [page.path.name for page in pages if set(page.followed_by) - numbers]
    assert lost == []


@pytest.mark.parametrize("topic, status", [("riddles", "accepted"), ("core", "maybe")])
def test_a_page_of_unknown_topic_or_status_is_refused(tmp_path, topic, status):
    page = tmp_path / "001-name.md"
    page.write_text(
        f"# 001: Name\n\nTopic: {topic}  \nStatus: {status}  \nSupersedes: none\n\nText.\n"
    )
    with pytest.raises(ValueError, match="001-name.md"):
        read(page)
