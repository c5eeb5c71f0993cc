"""Wrong variants of examples: what a hurried user types in place of them."""

import ast
import copy

# A value of another kind in place of an argument, made where the example runs.
HELPER = """
def _of_another_kind(value):
    import torch
    if isinstance(value, torch.Tensor):
        return value.bool() if value.dtype is not torch.bool else value.to(torch.complex64)
    if isinstance(value, bool) or value is None:
        return "nonsense"
    if isinstance(value, (int, float)):
        return -value - 3
    if isinstance(value, str):
        return "nonsense"
    if isinstance(value, (list, tuple)):
        return type(value)(value[:-1])
    return 5
def _of_another_shape(value):
    import torch
    if isinstance(value, torch.Tensor):
        return value[..., None] if value.dim() < 2 else value.flatten()[1:]
    return [value, value]
"""


def variants(name, statements):
    """An example's last call made wrong in one way each.

    Yields:
        the name with the way, and the statements.
    """
    for at in reversed(range(len(statements))):
        tree = _parsed(statements[at])
        call = _call_of(tree)
        if call is not None:
            for way, changed in _ways(tree, call):
                source = ast.unparse(changed) + "\n"
                yield f"{name}: {way}", [HELPER, *statements[:at], source]
            return


def _parsed(source):
    try:
        return ast.parse(source)
    except SyntaxError:
        return None


def _call_of(tree):
    """The call that a statement is, or assigns the value of."""
    if tree is None or len(tree.body) != 1:
        return None
    value = getattr(tree.body[0], "value", None)
    return value if isinstance(value, ast.Call) else None


def _ways(tree, call):
    """Each way to make a call wrong, and the statement so changed."""

    def changed(change):
        other = copy.deepcopy(tree)
        change(_call_of(other))
        return other

    def wrapped(place, helper):
        def change(one):
            one.args[place] = ast.Call(ast.Name(helper), [one.args[place]], [])

        return change

    plain = [
        place for place, arg in enumerate(call.args) if not isinstance(arg, ast.Starred)
    ]
    if plain:
        yield "the first argument left out", changed(lambda one: one.args.pop(0))
    for place in plain[:3]:
        yield (
            f"argument {place} of another kind",
            changed(wrapped(place, "_of_another_kind")),
        )
        yield (
            f"argument {place} of another shape",
            changed(wrapped(place, "_of_another_shape")),
        )
    yield "one more argument", changed(lambda one: one.args.append(ast.Constant(7.5)))
    yield (
        "an unknown keyword",
        changed(
            lambda one: one.keywords.append(ast.keyword("nothing", ast.Constant(1)))
        ),
    )
    for number, keyword in enumerate(call.keywords):
        if keyword.arg is not None:

            def change(one, number=number):
                value = one.keywords[number].value
                one.keywords[number].value = ast.Call(
                    ast.Name("_of_another_kind"), [value], []
                )

            yield f"{keyword.arg} of another kind", changed(change)
