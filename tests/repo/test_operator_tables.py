"""What is true of an operator stands in its declaration, not in a list of names elsewhere.

Counted are lists, sets, mappings and texts of words of which most are operators' names, six
or more, in the rooms that run operators; PyTorch's own lists of its namespaces are in others.
Where a room has words of its own that operators share, as the compiler has names of
functions of numbers, six others are needed.
"""

import ast
import math
import operator
from collections import Counter
from pathlib import Path

from rushlight._generated.tables import OPERATORS
from rushlight.core.dtype import all_dtypes
from tests.repo.ratchet import hold
from tests.repo.trees import nodes

ROOT = Path(__file__).parents[2] / "rushlight"
NAMES = {entry[0] for entry in OPERATORS}
FEWEST = 6
ROOMS = (
    "core", "codegen", "runtime", "dispatch", "operators", "autograd", "graph", "export",
    "fx", "front/func", "front/_subclasses",
)  # fmt: skip
# Rooms with rules of their own for operators, by name.
WITH_RULES = "front/masked", "front/nested", "distributed", "jit"
# Words of rooms that are no operators there: functions of numbers, Python's operators, types.
NUMBERS = frozenset(dir(operator))
SHARED = {
    "codegen": NUMBERS | frozenset(dir(math)),
    "jit": NUMBERS | frozenset(dir(math)) | frozenset(all_dtypes()),
    "export": NUMBERS,
    "fx": NUMBERS,
    "core": frozenset(all_dtypes()),
}


def words_in(node):
    """The words of a literal that lists some."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        items = node.elts
    elif isinstance(node, ast.Dict):
        items = node.keys
    else:
        text = node.value if isinstance(node, ast.Constant) else None
        return text.split() if isinstance(text, str) else []
    return [one.value for one in items if isinstance(one, ast.Constant)]


def operators_in(words, room=None):
    """How many words of a list name operators; 0 where it is no list of operators."""
    words = [word for word in words if isinstance(word, str)]
    named = [w for w in words if w.split(".")[0].removesuffix("_") in NAMES]
    own = [word for word in named if word not in SHARED.get(room, ())]
    return len(named) if 2 * len(named) > len(words) and len(own) >= FEWEST else 0


def docstrings(path):
    """The texts of a file that are documentation, and the names that it exports."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in nodes(path) if isinstance(node, owners)]
    firsts = [body[0] for body in bodies if body]
    texts = [one for one in firsts if isinstance(one, ast.Expr)]
    return {id(one.value) for one in [*texts, *filter(exports, nodes(path))]}


def exports(node):
    """Whether a statement is a module's ``__all__``, which is no fact of an operator."""
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def test_no_more_lists_of_operators_stand_outside_declarations():
    found = Counter()
    rooms = *ROOMS, *WITH_RULES
    for path in sorted(one for room in rooms for one in (ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        passed = docstrings(path)
        for node in nodes(path):
            if id(node) not in passed:
                found[name] += operators_in(words_in(node), name.split("/")[0])
    hold("operator_tables", +found, "a word, or a record, in the operators' entries")


def test_lists_of_operators_are_seen():
    listed = "{'exp': 1, 'sin': 2, 'add': 3, 'mul.Tensor': 4, 'neg_': 5, 'gelu': 6}"
    for text in (listed, "'exp sin cos tan add mul'.split()", "('exp', 'sin', 'add')"):
        counts = [operators_in(words_in(n)) for n in ast.walk(ast.parse(text))]
        assert max(counts) == (0 if text.startswith("(") else 6)
    assert operators_in("exp sin cos tan mul add relu".split(), "codegen") == 0
    assert operators_in("exp gelu relu selu celu silu mish".split(), "codegen") == 7
