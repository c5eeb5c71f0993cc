"""Every operator has a place in the reference, with a sentence about it."""

import re

import pytest

from opgen.__main__ import load
from opgen.emit.reference import write_pages


@pytest.fixture(scope="module")
def entries():
    found, faults = load()
    assert not faults.messages
    return found


@pytest.fixture(scope="module")
def pages(entries):
    return write_pages(entries)


def test_every_operator_that_users_call_has_a_heading(pages):
    import rushlight
    from rushlight.operators import registry

    headings = {
        heading
        for text in pages.values()
        for heading in re.findall(r"^## (\w+)$", text, re.MULTILINE)
    }
    names = {
        value.name
        for space in registry.namespaces.values()
        for value in space.values()
        if not value.name.endswith("_")
    }
    assert rushlight.add.name in names
    assert not sorted(names - headings)


def test_every_entry_has_a_sentence(entries):
    silent = [
        str(entry.location) for entry in entries if not (entry.doc or "").endswith(".")
    ]
    assert not silent


def test_links_of_the_index_lead_to_headings(pages):
    broken = [
        f"{page}#{heading}"
        for page, heading in re.findall(r"\((\w+\.md)#(\w+)\)", pages["index.md"])
        if f"\n## {heading}\n" not in pages.get(page, "").lower()  # as in an address
    ]
    assert not broken
