"""Text of symbolic integers, as PyTorch prints them."""

import itertools


def printed(expr, name=str):
    """An expression as PyTorch prints it.

    Args:
        name: what a symbol is called.
    """
    if hasattr(expr, "left"):
        sides = [printed(one, name) for one in (expr.left, expr.right)]
        if expr.name in ("min", "max", "mod"):
            return f"{expr.name.capitalize()}({', '.join(sides)})"
        sides = [
            f"({text})" if hasattr(one, "terms") else text
            for text, one in zip(sides, (expr.left, expr.right))
        ]
        return (
            f"({sides[0]}//{sides[1]})" if expr.name == "floordiv" else "**".join(sides)
        )
    if not hasattr(expr, "terms"):
        return str(expr) if isinstance(expr, int) else name(expr)
    text = ""
    for key, count in sorted(expr.terms.items(), key=order_of):
        product = _product(key, abs(count), name)
        sign = ("-" if count < 0 else "") if not text else " - " if count < 0 else " + "
        text += sign + product
    return text


def order_of(term):
    """Where a product comes in a sum: those of most factors first."""
    key = term[0] or ()
    return -len(key), [str(atom) for atom in key]


def _product(key, count, name):
    parts = [] if count == 1 and key else [str(count)]
    for atom, times in itertools.groupby(key or ()):
        text, many = printed(atom, name), len(list(times))
        if getattr(atom, "name", "") == "floordiv":
            text = f"({text})"
        parts.append(f"{text}**{many}" if many > 1 else text)
    return "*".join(parts)
