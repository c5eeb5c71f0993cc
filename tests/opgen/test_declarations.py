"""The declaration files: all of them hold, and print back to what was parsed."""

import pytest

from opgen.__main__ import load
from opgen.model import RARE, RECORDS, TAGS
from opgen.parse import Faults, parse_folder, parse_text

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


EACH = """\
- each: {maximum: clamp_min, exp: exp}
  op: _foreach_{name}{_}(Tensor[] self, Scalar scalar) -> Tensor[]
  composite: foreach.over{_}({value})
  tags: [shown]
  doc: "``{name}`` of every tensor."
"""


def test_an_entry_for_each_name_is_written_with_its_form_in_place():
    faults = Faults()
    entries = parse_text(EACH, "foreach.yaml", faults)
    assert faults.messages == []
    assert [str(entry.schema) for entry in entries] == [
        "_foreach_maximum(Tensor[] self, Scalar scalar) -> Tensor[]",
        "_foreach_maximum_(Tensor(a!)[] self, Scalar scalar) -> ()",
        "_foreach_exp(Tensor[] self, Scalar scalar) -> Tensor[]",
        "_foreach_exp_(Tensor(a!)[] self, Scalar scalar) -> ()",
    ]
    assert [(e.function, e.argument) for e in entries[:2]] == [
        ("foreach.over", "clamp_min"),
        ("foreach.over_", "clamp_min"),
    ]
    assert entries[1].doc == "``maximum`` of every tensor, in place."


def test_a_word_belongs_to_one_record():
    sets = [TAGS, *RARE.values(), *RECORDS.values()]
    assert sum(map(len, sets)) == len(set().union(*sets))


MADE = """\
- op: rsub.Tensor(Tensor(a) self, Tensor other, *, Scalar alpha=1) -> Tensor
  composite: rsub
  also: [lists(sub), copies]
  doc: Backwards.
- each: lists
  op: _foreach_{name}{_}.List(Tensor[] self, Tensor[] other{keywords}) -> Tensor[]
  composite: foreach.over{_}({value})
  doc: "``{name}`` of every tensor."
- each: copies
  op: "{copy}"
  composite: copying({name})
  doc: A copy.
"""


def test_operators_are_made_of_those_that_say_so():
    faults = Faults()
    entries = parse_text(MADE, "made.yaml", faults)
    assert faults.messages == []
    assert [str(entry.schema) for entry in entries[1:]] == [
        "_foreach_rsub.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]",
        "_foreach_rsub_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()",
        "rsub_copy.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    ]
    assert entries[0].also == ("lists(sub)", "copies")


def test_a_word_that_no_entry_is_written_for_is_a_fault(tmp_path):
    (tmp_path / "made.yaml").write_text(
        MADE.replace("- each: copies", "- each: others")
    )
    faults = Faults()
    parse_folder(tmp_path, faults, tmp_path)
    assert faults.messages == [
        "made.yaml:9: no operator says 'also: [others]'",
        "made.yaml:3: no entry has 'each: copies'",
    ]
