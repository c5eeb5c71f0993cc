"""Writes each family's derivative formulas as plain Python functions.

A function is called with the mask of wanted gradients, the gradient that arrived
(``grads``, a tuple, where the formula says so) and the saved values.
"""

from dataclasses import dataclass

from opgen.formulas import ARGUMENT, NOT_IMPLEMENTED, RESULT, translate
from opgen.sources import defined_names, module_of

MULTI, SAVES_SELF, SAVES_RESULT = 1, 2, 4

_HEAD = '"""Derivatives of the operators in {home}.yaml."""\n'


@dataclass(frozen=True)
class Derivative:
    """One generated function: its text, and the row that describes it."""

    module: str
    function: str
    saved: tuple[tuple[int, int, int], ...]
    groups: tuple[tuple[int, bool], ...]
    flags: int
    outputs: tuple[int, ...]
    text: str

    def row(self):
        """What the operator tables hold of it."""
        return (
            self.module, self.function, self.saved, self.groups, self.flags,
            self.outputs,
        )  # fmt: skip


def derivative_of(entry, operators):
    """The derivative function of ``entry``, or None if it has no formula."""
    if not entry.derivative:
        return None
    args = {arg.name: (i, arg) for i, arg in enumerate(entry.schema.args)}
    wanted = sorted(
        args[name][0] for formula in entry.derivative for name in formula.arguments
    )
    bits = {entry.schema.args[index].name: 1 << n for n, index in enumerate(wanted)}
    family = defined_names(module_of(entry.family)) or {}
    formulas = [
        (formula, _translate(formula, entry, operators, family))
        for formula in entry.derivative
    ]
    saved = _merge_saved(formulas, bits)
    multi = any(translation.multi for _, translation in formulas)
    flags = MULTI if multi else 0
    if any((what, index) == (ARGUMENT, 0) for what, index, _ in saved.values()):
        flags |= SAVES_SELF
    if any(what == RESULT for what, _, _ in saved.values()):
        flags |= SAVES_RESULT
    outputs = entry.outputs
    if outputs is None:
        outputs = tuple(range(len(entry.schema.returns))) if multi else (0,)
    return Derivative(
        f"rushlight._generated.derivatives.{entry.family}", entry.identifier,
        tuple(saved.values()),
        tuple((index, entry.schema.args[index].kind in (2, 3)) for index in wanted),
        flags, outputs, _function(entry, formulas, bits, saved, multi),
    )  # fmt: skip


def write_family(family, derivatives):
    """The text of one family's module."""
    text = "\n\n".join(derivative.text for derivative in derivatives)
    imports = ""
    home, _, name = module_of(family).rpartition(".")
    if "family." in text:
        imports += f"from {home} import {name} as family\n"
    if "ops." in text:
        imports += "from rushlight.operators import call as ops\n"
    if "shared." in text:
        imports += "from rushlight.operators import shared\n"
    head = _HEAD.format(home=f"{home}.{name}".replace(".", "/"))
    return head + ("\n" + imports if imports else "") + "\n\n" + text


def _translate(formula, entry, operators, family):
    text = formula.text
    refused = NOT_IMPLEMENTED.fullmatch(text)
    if refused:
        translation = translate("None", entry, operators, family)
        name, words = entry.schema.full_name, refused["words"]
        translation.text = f"shared.not_implemented({name!r})"
        if words is not None:
            translation.text = f"shared.not_implemented({name!r}, {words!r})"
        return translation
    return translate(text, entry, operators, family)


def _merge_saved(formulas, bits):
    saved = {}
    for formula, translation in formulas:
        mask = sum(bits[name] for name in formula.arguments)
        for name, (what, index) in translation.saved.items():
            saved[name] = (what, index, saved.get(name, (0, 0, 0))[2] | mask)
    return saved


def _function(entry, formulas, bits, saved, multi):
    parameters = ["needs", "grads" if multi else "grad", *saved]
    lines = [
        f"def {entry.identifier}({', '.join(parameters)}):",
        f'    """{entry.location}"""',
    ]
    if len(formulas) == 1 and len(bits) == len(formulas[0][0].arguments):
        names = formulas[0][0].arguments
        if len(names) == 1 or list(names) == list(bits):
            lines.append(f"    return {formulas[0][1].text}")
            return "\n".join(lines) + "\n"
    results = {}
    # PyTorch goes through the gradients in the order of the arguments' names
    ordered = sorted(formulas, key=lambda pair: pair[0].arguments[0])
    reordered = [pair[0].arguments[0] for pair in ordered] != [
        pair[0].arguments[0] for pair in formulas
    ]
    for formula, translation in ordered:
        names = formula.arguments
        if len(names) == 1:
            text = f"{translation.text} if needs & {bits[names[0]]} else None"
            results[names[0]] = text
            if reordered:
                results[names[0]] = f"grad_{names[0]}"
                lines.append(f"    grad_{names[0]} = {text}")
            continue
        targets = [f"grad_{name}" for name in names]
        mask = sum(bits[name] for name in names)
        absent = ", ".join(["None"] * len(names))
        lines.append(f"    {', '.join(targets)} = (")
        lines.append(f"        {translation.text} if needs & {mask} else ({absent})")
        lines.append("    )")
        results.update(zip(names, targets))
    lines.append("    return (")
    lines += [f"        {results[name]}," for name in bits]
    lines.append("    )")
    return "\n".join(lines) + "\n"
