"""Names for the places of a declaration's row: `opgen.emit.tables` writes them in this order."""

from functools import cache

from rushlight.dispatch.enums import ArgumentKind

# The forms of an operator, as `dispatch.dispatcher` numbers them.
FUNCTIONAL, INPLACE, OUT = range(3)
# Kinds of arguments (`dispatch.schema.KINDS`) that kernels are given when they run.
NUMBER_KINDS = frozenset(
    {ArgumentKind.SCALAR, ArgumentKind.FLOAT, ArgumentKind.OPTIONAL_FLOAT}
)
# An operator's row; operators from outside have none.
(
    NAME,
    OVERLOAD,
    ARGUMENTS,
    RETURNS,
    VARIANTS,
    DUNDERS,
    NAMESPACE,
    IMPLEMENTATION,
    RULE,
    DERIVATIVE,
    SOURCE,
    TAGS,
    OUTPUT,
    OVERLAP,
    LAYOUT,
    NUMBERS,
    DEPRECATED,
    BATCHING,
    FORWARD,
    AUTOCAST,
    AUTOCAST_CUDA,
    DECOMPOSITION,
    INVERSE,
    RULES,
    OVERLOADS,
    NODE,
) = range(26)
# The row of what stands among operators without a declaration.
BLANK = ((),) * (NODE + 1)
# A further name of an overload, and what its conditions ask of an argument.
OVERLOAD_NAME, OVERLOAD_FORM, CONDITIONS = range(3)
NUMBER, TENSOR, ONE, COMPOSED, FILED, NAMED = range(6)
# Its implementation.
KIND, MODULE, FUNCTION, BY_KEY, OPTIONAL, CHECK, ARGUMENT = range(7)


def says(op, word, record=TAGS):
    """Whether an operator's declaration has a word among its tags, or in a record."""
    return bool(op.entry) and word in op.entry[record]


def rule_of(op, which, home):
    """The rule of a name that an operator's declaration has; None where it has none.

    Args:
        op: the operator; forms that are derived of one have no rules.
        which: a name in ``opgen.model.RULE_HOMES``.
        home: the module that such rules are defined in.
    """
    if op.functional is not None or not op.entry:
        return None
    for name, attribute, argument in op.entry[RULES]:
        if name == which:
            return _made(home, attribute, argument)
    return None


@cache
def _made(home, attribute, argument):
    """A function of a module, or what it makes of an argument."""
    found = getattr(home, attribute)
    return found if argument is None else found(argument)
