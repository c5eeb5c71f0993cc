"""ONNX graphs as they are built: values, nodes, constants, names."""

import numpy as np

import rushlight as rl
from rushlight.onnx._types import array_of, number_of, raw_bytes


class Value:
    """What a node of an ONNX graph gives, an input, or a constant.

    Attributes:
        name: its name in the graph.
        dtype: the type of its elements, where that is known.
        shape: sizes, numbers or symbols; None where nobody has said.
        constant: an array with its elements, if they are known.
        is_size: whether it stands for an integer of the program, as a vector of one.
    """

    __slots__ = ("constant", "dtype", "is_size", "name", "shape")

    def __init__(self, name, dtype=None, shape=None, constant=None, is_size=False):
        self.name, self.dtype, self.shape = name, dtype, shape
        self.constant, self.is_size = constant, is_size

    @property
    def rank(self):
        """The number of dimensions."""
        return len(self.shape)

    def is_static(self, *dims):
        """Whether sizes are numbers: all, or those of some dimensions."""
        sizes = [self.shape[dim] for dim in dims] if dims else self.shape
        return all(type(size) is int for size in sizes)

    def __repr__(self):
        return f"%{self.name}"


class Names:
    """The names of one model; each is given once."""

    def __init__(self):
        self.taken: set = set()
        self.numbers: dict = {}

    def fresh(self, stem):
        """A name that nothing has: the stem, or the stem with a number."""
        if stem not in self.taken:
            self.taken.add(stem)
            return stem
        number = self.numbers.get(stem, 0)
        while True:
            number += 1
            name = f"{stem}_{number}"
            if name not in self.taken:
                self.numbers[stem] = number
                self.taken.add(name)
                return name


class GraphBuilder:
    """Writes one graph: nodes in their order, constants, and what operators they need.

    Args:
        opset: the version of ONNX's own operators.
        parent: the graph around this one, whose values can be used here.

    Attributes:
        nodes: the messages of the nodes.
        weights: the model's own tensors by name.
        constants: other constants, arrays by name.
        domains: versions of other operators by domain.
        functions: functions of the model by domain and name.
        node: the step of the program that is written now.
    """

    def __init__(self, opset, parent=None):
        self.opset, self.parent = opset, parent
        self.nodes: list = []
        self.node = None
        root = parent or self
        self.names = parent.names if parent else Names()
        self.weights = {} if root is self else root.weights
        self.constants = {} if root is self else root.constants
        self.domains = {} if root is self else root.domains
        self.functions = {} if root is self else root.functions
        self._known = {} if root is self else root._known

    @property
    def kind(self):
        """The type of the elements that the step gives."""
        return self.result.dtype

    @property
    def result(self):
        """The first tensor that the step gives, without elements."""
        value = self.node.meta["val"]
        return value if isinstance(value, rl.Tensor) else value[0]

    # -- nodes -------------------------------------------------------------------------

    def op(
        self,
        op_type,
        *inputs,
        outputs=1,
        domain="",
        dtype=None,
        shape=None,
        **attributes,
    ):
        """One more node.

        Args:
            op_type: the operator.
            inputs: values; None where an operand is left out.
            outputs: how many results it has.
            domain: whose operator it is; ONNX's own without one.
            dtype: the type of the result's elements.
            shape: the result's sizes.
            attributes: the operator's attributes; those that are None are left out. An
                underscore behind a name tells ONNX's ``dtype`` from the one above.

        Returns:
            the result, or a tuple of several.
        """
        stem = self._stem(op_type)
        results = [self.names.fresh(stem) for _ in range(outputs)]
        given = ["" if one is None else one.name for one in inputs]
        while given and not given[-1]:
            given.pop()
        self.nodes.append(self._node(op_type, given, results, domain, attributes))
        values = tuple(Value(name, dtype, shape) for name in results)
        return values[0] if outputs == 1 else values

    def _node(self, op_type, given, results, domain, attributes):
        """The message of a node, with a name, and where it comes from."""
        from onnx import helper

        attributes = {
            name.rstrip("_"): one for name, one in attributes.items() if one is not None
        }
        name = self.names.fresh(f"node_{op_type}")
        made = helper.make_node(
            op_type, given, results, name=name, domain=domain, **attributes
        )
        self._annotate(made)
        return made

    def _stem(self, op_type):
        if self.node is None:
            return op_type.lower()
        return str(self.node.name)

    def _annotate(self, made):
        """Notes which module of the program, and which step, a node comes from."""
        if self.node is None:
            return
        stack = self.node.meta.get("nn_module_stack") or {}
        path = "/".join(one for one, _ in stack.values() if one)
        for key, text in (("namespace", path), ("fx_node", str(self.node.name))):
            entry = made.metadata_props.add()
            entry.key, entry.value = f"rushlight/{key}", text

    # -- constants ---------------------------------------------------------------------

    def const(self, values, dtype):
        """A constant: the same numbers of the same type are there once."""
        array = array_of(values, dtype)
        raw = raw_bytes(array) if isinstance(array, rl.Tensor) else array.tobytes()
        shape = tuple(array.shape)
        key = raw, str(dtype), shape
        known = self._known.get(key)
        if known is None:
            name = self.names.fresh("val")
            self.constants[name] = array
            known = self._known[key] = Value(name, dtype, shape, array)
        return known

    def ints(self, values):
        """A vector of integers."""
        return self.const([int(one) for one in values], rl.int64)

    def sizes(self, values):
        """A vector of integers of which some are computed by the program."""
        if isinstance(values, Value):
            return values
        if all(isinstance(one, int) for one in values):
            return self.ints(values)
        if len(values) == 1:
            return self.size(values[0])
        parts, run = [], []
        for one in values:
            if isinstance(one, int):
                run.append(int(one))
                continue
            if run:
                parts.append(self.ints(run))
                run = []
            parts.append(one)
        if run:
            parts.append(self.ints(run))
        return self.op("Concat", *parts, axis=0, dtype=rl.int64, shape=(len(values),))

    def size(self, value):
        """An integer of the program, known or not, as a vector of one."""
        return value if isinstance(value, Value) else self.ints([value])

    def size_of(self, value, dim):
        """The size of a dimension: a number, or a vector of one that computes it."""
        dim %= max(value.rank, 1)
        known = value.shape[dim]
        if type(known) is int:
            return known
        made = self.op(
            "Shape", value, start=dim, end=dim + 1, dtype=rl.int64, shape=(1,)
        )
        made.is_size = True
        return made

    def sizes_of(self, value):
        """All sizes of a value."""
        return [self.size_of(value, dim) for dim in range(value.rank)]

    def shape_of(self, value):
        """The sizes of a value as a vector."""
        if value.shape is not None and value.is_static():
            return self.ints(value.shape)
        return self.op("Shape", value, dtype=rl.int64)

    # -- what every lowering needs -----------------------------------------------------

    def cast(self, value, dtype):
        """A value with elements of a type: numbers become constants of it."""
        if not isinstance(value, Value):
            return self.const(self._as_number(value, dtype), dtype)
        if value.is_size:
            value = self.scalar(value)
        if value.dtype is dtype:
            return value
        return self.op(
            "Cast", value, to=number_of(dtype), dtype=dtype, shape=value.shape
        )

    @staticmethod
    def _as_number(value, dtype):
        if dtype.is_floating_point or dtype.is_complex:
            return value
        return bool(value) if dtype is rl.bool else int(value)

    def scalar(self, value):
        """An integer of the program as a tensor without dimensions."""
        return self.op("Squeeze", value, self.ints([0]), dtype=value.dtype, shape=())

    def reshape(self, value, sizes):
        """A value in other sizes, of which one may be -1.

        Args:
            value: the value.
            sizes: numbers and integers of the program.
        """
        static = all(isinstance(one, int) for one in sizes)
        shape = tuple(sizes) if static and -1 not in sizes else None
        return self.op(
            "Reshape",
            value,
            self.sizes(sizes),
            allowzero=1 if static and 0 in sizes and -1 not in sizes else None,
            dtype=value.dtype,
            shape=shape,
        )

    def transpose(self, value, order):
        """A value with its dimensions in another order."""
        if list(order) == list(range(len(order))):
            return value
        shape = None if value.shape is None else tuple(value.shape[d] for d in order)
        return self.op("Transpose", value, perm=order, dtype=value.dtype, shape=shape)

    def unsqueeze(self, value, dims):
        """A value with dimensions of one at some places of the result."""
        if not dims:
            return value
        shape = None
        if value.shape is not None:
            rank = len(value.shape) + len(dims)
            rest = iter(value.shape)
            at = {dim % rank for dim in dims}
            shape = tuple(1 if d in at else next(rest) for d in range(rank))
        return self.op(
            "Unsqueeze", value, self.ints(dims), dtype=value.dtype, shape=shape
        )

    def squeeze(self, value, dims):
        """A value without some dimensions of one."""
        if not dims:
            return value
        shape = None
        if value.shape is not None:
            gone = {dim % len(value.shape) for dim in dims}
            shape = tuple(s for d, s in enumerate(value.shape) if d not in gone)
        return self.op(
            "Squeeze", value, self.ints(dims), dtype=value.dtype, shape=shape
        )

    def slice(self, value, starts, ends, dims, steps=None):
        """Part of a value along some dimensions."""
        return self.op(
            "Slice",
            value,
            self.sizes(starts),
            self.sizes(ends),
            self.ints(dims),
            None if steps is None else self.ints(steps),
            dtype=value.dtype,
        )

    def reduce(self, op_type, value, dims=None, keepdim=False):
        """A reduction over some dimensions, or all."""
        if dims is not None and not isinstance(dims, (list, tuple)):
            dims = [dims]
        axes = self.ints([int(d) for d in dims]) if dims else None
        return self.op(op_type, value, axes, keepdims=int(keepdim), dtype=value.dtype)

    def binary(self, op_type, left, right):
        """A node of two operands of the same type; numbers become the other's."""
        kind = left.dtype if isinstance(left, Value) else right.dtype
        left, right = self.cast(left, kind), self.cast(right, kind)
        return self.op(op_type, left, right, dtype=kind)

    def add(self, left, right):
        """The sum."""
        return self.binary("Add", left, right)

    def sub(self, left, right):
        """The difference."""
        return self.binary("Sub", left, right)

    def mul(self, left, right):
        """The product."""
        return self.binary("Mul", left, right)

    def div(self, left, right):
        """The quotient."""
        return self.binary("Div", left, right)

    def compare(self, op_type, left, right):
        """A comparison: truth values."""
        made = self.binary(op_type, left, right)
        made.dtype = rl.bool
        return made

    def where(self, condition, one, other):
        """One of two values, element by element."""
        kind = one.dtype if isinstance(one, Value) else other.dtype
        one, other = self.cast(one, kind), self.cast(other, kind)
        return self.op("Where", condition, one, other, dtype=kind)

    def identity(self, value):
        """The value under another name."""
        return self.op("Identity", value, dtype=value.dtype, shape=value.shape)

    def is_known(self, value):
        """Whether the elements of a value are known while the graph is built."""
        return isinstance(value, Value) and isinstance(value.constant, np.ndarray)
