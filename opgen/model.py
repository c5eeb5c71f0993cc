"""What a declaration says, as frozen data that prints back to what was parsed."""

import re
from dataclasses import dataclass, field

from opgen.schema import Schema

IMPLEMENTATIONS = ("pointwise", "reduction", "cpu", "composite", "view")
# Dispatch keys that may have a kernel of their own; without one they have that of the host.
DEVICES = {"cuda": "CUDA", "meta": "Meta"}
# Those of layouts and of quantized tensors: without one they refuse.
LAYOUTS = {
    "sparse_coo": "SparseCPU", "sparse_csr": "SparseCsrCPU", "quantized": "QuantizedCPU"
}  # fmt: skip
KEYS = {**DEVICES, **LAYOUTS}
VARIANTS = {"function": 1, "method": 2, "inplace": 4, "out": 8}
RULES = {
    "promote", "promote_float", "promote_integer", "bool", "same", "int64", "sum",
    "float", "real", "with_index", "first",
}  # fmt: skip
TAGS = {
    "random", "factory",
    "checks_elements",  # refuses some: bad indices, singular matrices, whole zeros below
    "strided_only",  # makes dense tensors: other layouts are refused
    "anywhere",  # its function asks the backend for all that it does with memory
    "planned",  # its function looks at no element: see `dispatch.launch_cache`
    "geometry",  # looks at sizes and types of tensors alone: conjugates wait on
    "mixed_devices",  # refuses tensors of two devices in words of its own, if at all
    "shapes_alone",  # beside a first tensor on meta it takes tensors of any device
    "shown",  # users call it though its name begins with an underscore
    # of calls that Python listens to
    "recorded_in_parts",  # exported programs have its decomposition, too
    "dispatched_whole",  # PyTorch has a kernel for it: `__torch_dispatch__` sees it whole
}  # fmt: skip
# Three records say what is rare: the rows of the tables have their words among the tags.
MEMORY = {  # what results share, and what is written
    "view_or_copy",
    "unrelated",  # shares its source's memory and is no view of it all the same
    "untracked",  # derivatives and tangents do not go through it, though it is a view
    "reshapes",  # gives a tensor another shape in place: no element changes
    "unmarked_writes",  # writes to arguments that its schema does not mark
}
ELEMENTS = {  # what follows from elements
    "data_dependent",  # the sizes of results depend on the elements of arguments
    "fixed_sizes",  # looks at elements, but what it gives has sizes of its own
    "number",  # gives a number that it reads from elements
    "unset",  # the elements of its result are whatever was there
    "like",  # its result has the sizes of the first operand, and other elements
}
REDUCES = {  # what is true of a reduction
    "in_parts",  # may be applied to its own results
    "nonempty",  # of no elements it does not exist
    "zero", "one", "least", "greatest",  # further elements that are so change nothing
    "otherwise",  # none go unseen, and no kernel of reductions computes it
}  # fmt: skip
RARE = {"memory": MEMORY, "elements": ELEMENTS, "reduces": REDUCES}
# Others say what differs from what is usual for the kind of operator.
OUTPUT = {  # what is written, as `out=` or in place
    # which types `out=` may have: see `dispatch.outputs.OUT_RULES`
    "cast", "exact", "any", "joined", "kernel", "truth", "field", "lone",
    "detached",  # `out=` takes values from inputs that require gradients
    "leaf",  # `out=` may require gradients, which nothing will flow to
    "quiet",  # `out=` is resized without a warning
    "same_numel",  # `out=` keeps its sizes where it has as many elements
    "direct",  # its function's last elementwise call may write `out=` itself
    "own_kernel",  # a function of its own writes `out=`: its name ends in "_into"
    "in_place_kernel",  # one whose name ends in "_" runs in place
    "writes_large",  # in place, its function writes in a large tensor itself
    "grows",  # in place, a tensor that is too small takes the result's sizes
    "zero_grad",  # in place, its results belong to the graph, and their gradient is zero
    "if_recorded",  # in place, it is recorded only where what is written has gradients
    "no_version_bump",  # in place, nothing was written where its sizes stay what they were
}  # fmt: skip
OVERLAP = {  # what memory may be shared with what is written
    "no_partial",  # `out=` shares no part of an input's memory, or all of it
    "no_out",  # `out=` shares no memory with an input
    "none",  # what is written, in place or as `out=`, shares none with other inputs
    "after_resize",  # that is looked at once `out=` has the result's sizes
    "internal_before",  # but that it shows each element once is looked at before, too
    "internal",  # what is written may show one element at several places
    "internal_warns",  # in place, with PyTorch's warning
}
LAYOUT = {  # how results lie in memory
    "row_major",  # results, and `out=` when resized, whatever the layout of operands
    "second_first",  # the second operand comes first where layouts differ
    "dense_copy",  # as a dense copy of the operand would be
    "strides",  # with the operand's strides where it has no gaps
    "complex_strides",  # the same of complex numbers
    "integer_strides",  # the same of integers
    "with_number",  # as if a number were an operand
    "without_numbers",  # numbers are no operands
}
NUMBERS = {  # how elementwise kernels take numbers
    "wide_last",  # a lone last operand is not rounded to half precision
    "wide_alone",  # nor is one of that very type what its kernel rounds in between
    "strict",  # numbers beside tensors must be within the type's range
    "round_halves",  # but halves, which take what is too large for infinite
    "unchecked",  # numbers that are no operands need not be
    "rounded",  # numbers that are no operands are, too
    "as_tensors",  # a number stands for a tensor without dimensions
    "scales_second",  # the number after "*" multiplies the second operand
}
DEPRECATED = {  # orders of arguments of PyTorch's first years: see `dispatch.deprecated_signatures`
    "factor_second",  # the factor right behind the tensor
    "factors_first",  # the factors around the tensor
    "number_last",  # a number and its factor, without keywords
}  # fmt: skip
RECORDS = {
    "out": OUTPUT, "overlap": OVERLAP, "layout": LAYOUT, "numbers": NUMBERS,
    "deprecated": DEPRECATED,
}  # fmt: skip
# What few operators have a rule of their own for, and the module that it is defined in.
RULE_HOMES = {
    # what fakes give where a size follows from elements
    "open_sizes": "rushlight.graph.data_dependent",
    # what is called in its place while a program is recorded
    "recorded": "rushlight.fx.experimental.as_called",
    # what has the same results but for their elements
    "without_elements": "rushlight.fx.experimental.as_called",
    # what makes a call along rows part of a fusion group
    "fused_along": "rushlight.graph.reduction_nodes",
    # what may take elementwise functions behind its sums
    "fusion_anchor": "rushlight.graph.fusion_anchor",
    # what libraries of devices call it behind their products
    "epilogue": "rushlight.graph.fusion_anchor",
    # how ranks compute it of their parts of spread tensors
    "sharding": "rushlight.distributed.tensor._sharding_rules",
    # what it does to the data and the mask of masked tensors
    "masked": "rushlight.front.masked.maskedtensor._ops_refs",
}
# What levels of transformations do with an operator, and autocast's blocks. Beside these
# words there may be the name of a function: a rule, or for ``autocast`` what gives one of
# its words, or None, for the arguments of a call.
BATCHING = {
    "elementwise",  # operands are aligned behind the batch, however they are computed
    "along",  # its ``dim`` or ``dims`` name dimensions of every tensor that it takes
}  # fmt: skip
FORWARD = {
    "linear",  # in all its tensors together: tangents are mapped as they are
    "product",  # linear in each of the first two; the third, if any, is added
    "symmetric",  # its Jacobian is its own transpose, as an elementwise operator's is
}  # fmt: skip
AUTOCAST = {
    "short",  # computed in the block's short type
    "long",  # computed in float32, as short types lose too much
    "widest",  # in the widest type among its arguments
    "at_entry",  # as outside of the block, whatever it is composed of
    "summed",  # in float32, but for a call that names a type
}  # fmt: skip
# What a condition for the name of an overload may ask of an argument.
# "composed" asks who calls: a composition, or a derivative's formula.
# Of the last ones, one holds for steps of files, and one for who asks by the name alone.
CONDITIONS = ("number", "tensor", "one", "composed", "filed", "named")
UNASKED = CONDITIONS[3:]  # they ask nothing of an argument
POLICIES = ("batching", "forward", "autocast", "autocast_cuda")
# What docstrings say beside `doc`, as texts and as pairs of a name and a text.
TEXTS = ("formula", "details", "returns", "example", "like")
PAIRS = ("args", "raises")
NAMESPACES = {None, "linalg", "special", "nn.functional", "fft"}


@dataclass(frozen=True)
class Location:
    """A line of a declaration file."""

    file: str
    line: int

    def __str__(self):
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Rule:
    """How a pointwise or reduction result's dtype follows from the arguments'."""

    name: str
    arguments: tuple[str, ...] | None = None

    def __str__(self):
        if self.arguments is None:
            return self.name
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True)
class Reference:
    """A function, or one that makes a function of an argument: ``over(exp)``.

    >>> str(Reference.of("foreach.over(exp)")), Reference.of("clone").argument
    ('foreach.over(exp)', None)
    """

    function: str
    argument: str | None = None

    @classmethod
    def of(cls, text):
        """What a declaration's text refers to."""
        function, _, argument = text.partition("(")
        return cls(function, argument.removesuffix(")") or None)

    @property
    def is_function(self):
        """Whether a node's name is told by a function; names begin otherwise."""
        return "." in self.function and "::" not in self.function

    @property
    def arguments(self):
        """What stands in the brackets, apart."""
        return tuple(re.findall(r"\w+", self.argument or ""))

    def __str__(self):
        made = "" if self.argument is None else f"({self.argument})"
        return f"{self.function}{made}"


@dataclass(frozen=True)
class Formula:
    """The gradient of one argument, or of several at once."""

    arguments: tuple[str, ...]
    text: str
    location: Location = field(compare=False)

    def __str__(self):
        return f"{', '.join(self.arguments)}: {self.text}"


@dataclass(frozen=True)
class Naming:
    """When PyTorch has an overload of another name for a call.

    Attributes:
        form: ``"in place"``, ``"function"``, ``"out"``, or None for the first two.
        conditions: ``(what, argument)`` each: it is a ``number``, a ``tensor``, or a list
            of ``one``; or ``("composed", "")``, and the like of what asks nothing of an
            argument.
        name: the overload's name.
    """

    form: str | None
    conditions: tuple[tuple[str, str], ...]
    name: str

    def __str__(self):
        parts = [self.form] if self.form else []
        parts += [" ".join(one).strip() for one in self.conditions]
        return f"{' and '.join(parts) or 'always'}: {self.name}"


@dataclass(frozen=True)
class Entry:
    """One overload of one operator.

    Where there is an ``argument``, ``function`` makes what computes the operator of it:
    ``foreach.over(exp)``. The kernels of a key are those of the operator and of its form
    in place; an operator that only keys have is of the first one's kind. Of the operator
    ``also`` others are made: see `opgen.templates`.
    """

    schema: Schema
    kind: str
    function: str
    location: Location = field(compare=False)
    argument: str | None = None
    variants: tuple[str, ...] = ("function",)
    operators: tuple[str, ...] = ()
    namespace: str | None = None
    cuda: tuple[Reference, ...] = ()
    meta: tuple[Reference, ...] = ()
    sparse_coo: tuple[Reference, ...] = ()
    sparse_csr: tuple[Reference, ...] = ()
    quantized: tuple[Reference, ...] = ()
    check: str | None = None
    rule: Rule | None = None
    derivative: tuple[Formula, ...] = ()
    outputs: tuple[int, ...] | None = None
    also: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    reduces: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    deprecated: tuple[str, ...] = ()
    batching: str | None = None
    forward: str | None = None
    autocast: str | None = None
    autocast_cuda: str | None = None
    decomposition: str | None = None
    inverse: str | None = None
    open_sizes: str | None = None
    recorded: str | None = None
    without_elements: str | None = None
    fused_along: str | None = None
    fusion_anchor: str | None = None
    epilogue: str | None = None
    sharding: str | None = None
    masked: str | None = None
    overloads: tuple[Naming, ...] = ()
    node: Reference | None = None
    sample: str | None = None
    reference: str | None = None
    doc: str = ""
    formula: str = ""
    details: str = ""
    args: tuple[tuple[str, str], ...] = ()
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    example: str = ""
    like: str | None = None
    family: str = field(default="", compare=False)

    @property
    def name(self):
        """The base name, without the overload."""
        return self.schema.name

    @property
    def identifier(self):
        """The full name as a Python identifier."""
        return self.schema.full_name.replace(".", "_")

    @property
    def python_name(self):
        """The name in its public namespace."""
        prefix = (self.namespace or "").split(".")[-1] + "_"
        return self.name.removeprefix(prefix) if self.namespace else self.name

    def __str__(self):
        lines = [f"- op: {self.schema}"]
        if self.variants != ("function",):
            lines.append(f"  variants: [{', '.join(self.variants)}]")
        if self.operators:
            lines.append(f"  operators: [{', '.join(self.operators)}]")
        if self.namespace:
            lines.append(f"  namespace: {self.namespace}")
        if self.kind not in KEYS:
            lines.append(f"  {self.kind}: {Reference(self.function, self.argument)}")
        for key in KEYS:
            if forms := [str(form) for form in getattr(self, key)]:
                listed = forms[0] if len(forms) == 1 else f"[{', '.join(forms)}]"
                lines.append(f"  {key}: {listed}")
        for name in ("check", "rule"):
            value = getattr(self, name)
            if value is not None:
                lines.append(f"  {'dtype' if name == 'rule' else name}: {value}")
        if self.derivative:
            lines.append("  derivative:")
            lines += [f"    {_quoted(str(formula))}" for formula in self.derivative]
        if self.overloads:
            names = ", ".join(map(str, self.overloads))
            lines.append(f"  overloads: {{{names}}}")
        if self.node is not None:
            lines.append(f"  node: {self.node}")
        if self.outputs is not None:
            lines.append(f"  outputs: [{', '.join(map(str, self.outputs))}]")
        for name in ("also", "tags", *RARE, *RECORDS):
            if words := getattr(self, name):
                lines.append(f"  {name}: [{', '.join(words)}]")
        for name in (
            *POLICIES, "decomposition", "inverse", *RULE_HOMES, "sample", "reference",
            "doc",
        ):  # fmt: skip
            if value := getattr(self, name):
                lines.append(f"  {name}: {_scalar(value)}")
        lines += _documents(self)
        return "\n".join(lines) + "\n"


def _documents(entry):
    """The lines of what an entry says for docstrings alone."""
    lines = []
    for name in TEXTS:
        if value := getattr(entry, name):
            block = "\n" in value
            shown = _block(value) if block else _scalar(value)
            lines.append(f"  {name}: {shown}")
    for name in PAIRS:
        if pairs := getattr(entry, name):
            lines.append(f"  {name}:")
            lines += [f"    {key}: {_scalar(text)}" for key, text in pairs]
    return lines


def _block(text):
    """A text of several lines as a YAML block."""
    rows = text.rstrip("\n").split("\n")
    return "|\n" + "\n".join(f"    {row}".rstrip() for row in rows)


def _scalar(text):
    """``text`` as YAML that reads back as the same string."""
    if any(mark in text for mark in (": ", " #", "'", '"')) or text[:1] in "[{*&!%@`|>":
        return "'" + text.replace("'", "''") + "'"
    return text


def _quoted(line):
    key, _, text = line.partition(": ")
    return f"{key}: {_scalar(text)}"
