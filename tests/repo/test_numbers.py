"""Numbers that two sides of an interface share have names."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "rushlight"

SOURCES = [p for p in sorted(PACKAGE.rglob("*.py")) if "_generated" not in p.parts]
# Where a device is asked what it can do, not which kind it is.
ASKING = [
    path
    for path in SOURCES
    if path.relative_to(PACKAGE).parts[0] in ("operators", "dispatch", "autograd", "nn")
    and path.name
    not in ("rnn.py", "graph.py", "container.py")  # PyTorch asks for the CPU
]
# Rooms whose bits of keys and of observers come from `core/keys.pxd`.
NAMING_ROOMS = ("autograd", "core", "dispatch", "export", "graph", "nn", "operators")
NAMED_BITS = [
    path for path in SOURCES if path.relative_to(PACKAGE).parts[0] in NAMING_ROOMS
]
# What has no name, and the sources where the names are.
NAMELESS = {
    "a place of a declaration": (r"\b(op|base|func|first)\.entry\[-?\d", SOURCES),
    "a form of an operator": (r"\.form (==|!=) \d", SOURCES),
    "a kind of device": (r"device(\.kind| *_kind) *(==|!=|<=?|>=?|=) *\d", SOURCES),
    "a host, or a device without memory": (
        r"device\.(type|kind) *(==|!=|in) *(\d|KIND|[\"(])",
        ASKING,
    ),
    "a kind of argument, or a rule of promotion": (
        r"\b(rule|arg\.kind|(?<!axis_)kind) (==|!=|<=) \d|\.kind in \(\d",
        [path for path in SOURCES if path.parent.name == "dispatch"],
    ),
    "a category of types": (
        r"\bcategory ((==|!=|<=?|>=?) \d|in \(\d)",
        SOURCES,
    ),
    "a key by its bit": (
        r"cluded & [0-9]|(uint64_t, 1\)|\b_?ONE) << \d|\bint, 1 << 20|uint64_t, 0x7F",
        NAMED_BITS,
    ),
    "a type's code": (
        r"(\.code|call\.(compute|result)|(?<!_)\bcode) (==|!=|[<>]=?) [1-9]",
        [path for path in SOURCES if path.name not in ("download.py", "kernels.py")],
    ),
}


@pytest.mark.parametrize("what", NAMELESS)
def test_no_line_has_a_number_where_there_is_a_name(what):
    text, sources = NAMELESS[what]
    pattern = re.compile(text)
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found
