"""Identifiers use the field's words: those of ``docs/glossary.md``."""

import ast
import re
from pathlib import Path

from tests.repo.ratchet import hold
from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2]
# Words of one meaning here and of none in the field, as parts of names.
PRIVATE = frozenset(
    """
    apart away behind beside bends card cards course courses ear elsewhere endless
    folded heads hear heard hears noting picking places soil stale stretch stretches
    tell there told turn turned turns varying warps witness witnessing worlds
    """.split()
)
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_of(path):
    """What a file defines: itself, its classes, functions, parameters and variables."""
    yield path.stem
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def private_words(name):
    """The words in a name that the field does not have.

    >>> sorted(private_words("turned_rows_there"))
    ['there', 'turned']
    """
    return {word.lower() for word in WORDS.findall(name)} & PRIVATE


def test_new_names_use_the_words_of_the_field():
    found = {}
    for path in sorted((ROOT / "rushlight").rglob("*.py")):
        if "_generated" not in path.parts:
            for name in set(names_of(path)):
                for word in private_words(name):
                    found[word] = found.get(word, 0) + 1
    hold("private_words", found, "docs/glossary.md has the field's word")


def test_words_are_found_in_names():
    assert private_words("TurnedRows") == {"turned"}
    assert private_words("return_types") == set()


def test_the_glossary_has_the_words():
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert "| turned" in text and "epilogue" in text
