"""Holds the parsed declarations against the rules; every fault is reported."""

from opgen.emit.tests import sampled
from opgen.formulas import NOT_IMPLEMENTED, FormulaError, translate
from opgen.model import (
    AUTOCAST,
    BATCHING,
    CONDITIONS,
    DEVICES,
    FORWARD,
    KEYS,
    NAMESPACES,
    RARE,
    RECORDS,
    RULE_HOMES,
    RULES,
    TAGS,
    UNASKED,
    VARIANTS,
    Reference,
)
from opgen.schema import TENSOR_KINDS
from opgen.sources import INVERSES, defined_names, locate, locate_batching, module_of

CALL = "rushlight.operators.call"  # the namespace of all operators

_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or",
    "xor", "lshift", "rshift",
)  # fmt: skip
DUNDERS = {f"__{prefix}{name}__" for name in _BINARY for prefix in ("", "r", "i")} | {
    f"__{name}__"
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "invert", "abs", "pos")
}


def check(entries, faults):
    """Add a message for each rule that an entry breaks."""
    operators = {entry.name for entry in entries}
    seen = {}
    for entry in entries:
        name = entry.schema.full_name
        if name in seen:
            message = f"'{name}' is already declared at {seen[name].location}"
            faults.add(entry.location, message)
        seen.setdefault(name, entry)
        for rule in (
            _check_words,
            _check_variants,
            _check_rule,
            _check_sample,
            _check_policies,
            _check_overloads,
            _check_node,
        ):
            rule(entry, faults)
        _check_implementation(entry, operators, faults)
        _check_derivative(entry, operators, faults)


def _check_words(entry, faults):
    for given, known, what in (
        (entry.variants, VARIANTS, "variant"), (entry.operators, DUNDERS, "operator"),
        (entry.tags, TAGS, "tag"), ((entry.namespace,), NAMESPACES, "namespace"),
        *(
            (getattr(entry, name), known, f"word for '{name}:'")
            for name, known in (RARE | RECORDS).items()
        ),
    ):  # fmt: skip
        for word in given:
            if word not in known:
                faults.add(entry.location, f"'{word}' is not a {what}")
    if not entry.doc.endswith("."):
        faults.add(
            entry.location, f"'{entry.name}' needs a doc: one sentence, with a dot"
        )


def _check_variants(entry, faults):
    args = entry.schema.args
    on_tensor = bool(args) and args[0].kind == 0
    for variant in ("method", "inplace"):
        takes_self = any(arg.name == "self" for arg in args)
        if variant in entry.variants and not (on_tensor or takes_self):
            message = f"variant '{variant}' of '{entry.name}' needs a Tensor to act on"
            faults.add(entry.location, message)
    if "inplace" in entry.variants and entry.name.endswith("_"):
        message = f"'{entry.name}' is an in-place operator already"
        faults.add(entry.location, message)
    written = any(arg.written for arg in args)
    if entry.name.endswith("_") and not entry.name.startswith("_") and not written:
        message = f"'{entry.name}' must mark what it writes, as in 'Tensor(a!) self'"
        faults.add(entry.location, message)


def _check_implementation(entry, operators, faults):
    references = [entry.function]
    if entry.decomposition is not None:
        references.append(entry.decomposition)
    for key in KEYS:
        forms = getattr(entry, key)
        references += [form.function for form in forms]
        if forms and key in DEVICES and entry.kind != "cpu":
            faults.add(entry.location, f"'{key}:' stands beside 'cpu:' alone")
        if len(forms) > 1 + ("inplace" in entry.variants):
            faults.add(entry.location, f"'{key}:' has kernels of forms that are not")
    if entry.check is not None:
        references.append(entry.check)
        if entry.kind != "pointwise":
            faults.add(entry.location, f"'check:' of '{entry.name}' is never called")
    for reference in references:
        module, attribute = locate(reference, entry.family)
        names = operators if module == CALL else defined_names(module)
        in_place = attribute.removesuffix("_") if module == CALL else attribute
        if names is None:
            faults.add(entry.location, f"'{reference}': there is no module {module}")
        elif not {attribute, in_place} & set(names):
            faults.add(entry.location, f"'{attribute}' is not defined in {module}")


def _check_rule(entry, faults):
    rule = entry.rule
    if rule is None:
        if entry.kind in ("pointwise", "reduction"):
            faults.add(
                entry.location, f"{entry.kind} '{entry.name}' needs a 'dtype:' rule"
            )
        return
    module = module_of(entry.family)
    if rule.name not in RULES and rule.name not in (defined_names(module) or {}):
        faults.add(entry.location, f"'{rule.name}' is no dtype rule")
    known = {arg.name for arg in entry.schema.args}
    for name in rule.arguments or ():
        if name not in known:
            faults.add(
                entry.location, f"dtype rule names '{name}', which is no argument"
            )


def _check_policies(entry, faults):
    found = []
    for said in (entry.autocast, entry.autocast_cuda):
        if said is not None and said not in AUTOCAST:
            found.append((said, locate(said, entry.family)))
    if entry.batching is not None and entry.batching not in BATCHING:
        found.append((entry.batching, locate_batching(entry.batching)))
    if entry.forward is not None and entry.forward not in FORWARD:
        found.append((entry.forward, locate(entry.forward, entry.family)))
    if entry.inverse is not None:
        found.append((entry.inverse, (INVERSES, entry.inverse)))
    for name, home in RULE_HOMES.items():
        if said := getattr(entry, name):
            found.append((said, (home, Reference.of(said).function)))
    for text, (module, attribute) in found:
        if attribute not in (defined_names(module) or {}):
            faults.add(entry.location, f"'{text}': there is no such rule in {module}")


def _check_node(entry, faults):
    node = entry.node
    if node is None or not node.is_function:
        return
    known = {arg.name for arg in entry.schema.args}
    for name in node.arguments:
        if name not in known:
            faults.add(entry.location, f"node names '{name}', which is no argument")
    module, attribute = locate(node.function, entry.family)
    if attribute not in (defined_names(module) or {}):
        faults.add(entry.location, f"'{node}': there is no such function in {module}")


def _check_overloads(entry, faults):
    kinds = {arg.name: arg.kind for arg in entry.schema.args}
    for naming in entry.overloads:
        for what, argument in naming.conditions:
            if what not in CONDITIONS:
                faults.add(entry.location, f"'{what}' is no condition for an overload")
            if argument not in kinds and what not in UNASKED:
                faults.add(
                    entry.location, f"overloads name '{argument}', which is no argument"
                )


def _check_sample(entry, faults):
    try:
        sampled(entry)
    except ValueError as error:
        faults.add(entry.location, str(error))


def _check_derivative(entry, operators, faults):
    args = {arg.name: arg for arg in entry.schema.args}
    seen = set()
    for formula in entry.derivative:
        for name in formula.arguments:
            if name not in args:
                faults.add(
                    formula.location, f"derivative of '{name}': no such argument"
                )
            elif args[name].kind not in TENSOR_KINDS:
                message = f"derivative of '{name}', which is a {args[name].type}"
                faults.add(formula.location, message)
            elif name in seen:
                faults.add(formula.location, f"'{name}' has two derivatives")
            seen.add(name)
        if NOT_IMPLEMENTED.fullmatch(formula.text):
            continue
        family = defined_names(module_of(entry.family)) or {}
        try:
            translate(formula.text, entry, operators, family)
        except FormulaError as error:
            faults.add(formula.location, str(error))
    for index in entry.outputs or ():
        if index >= len(entry.schema.returns):
            faults.add(entry.location, f"'{entry.name}' has no output {index}")
