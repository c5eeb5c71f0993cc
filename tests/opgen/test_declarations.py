"""The declaration files: all of them hold, and print back to what was parsed."""

import pytest

from opgen.__main__ import load
from opgen.parse import Faults, parse_text

ENTRIES, FAULTS = load()


def test_the_declarations_have_no_faults():
    assert FAULTS.messages == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.schema.full_name)
def test_an_entry_prints_back_to_what_was_parsed(entry):
    faults = Faults()
    (again,) = parse_text(str(entry), "printed.yaml", faults)
    assert faults.messages == []
    assert again == entry


def test_overloads_of_one_name_share_a_namespace():
    namespaces = {}
    for entry in ENTRIES:
        namespaces.setdefault(entry.name, set()).add(entry.namespace)
    assert {name for name, found in namespaces.items() if len(found) > 1} == set()
