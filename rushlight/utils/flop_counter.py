"""How many multiplications and additions a program's products and convolutions take."""

import math
from collections import defaultdict

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry: dict = {}  # operator packet -> formula of shapes, or of values
UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"), (1, ""))


def register_flop_formula(targets, get_raw=False):
    """Teaches the counter what an operator takes.

    Args:
        targets: an operator, or a list of them: ``ops.mylib.product``.
        get_raw: the formula takes the operator's arguments as they are; otherwise their
            shapes in place of tensors. Both get the result's as ``out_shape`` or
            ``out_val``.

    Returns:
        A decorator for the formula.
    """

    def register(formula):
        function = formula
        if not get_raw:

            def function(*args, out_val=None, **kwargs):
                shapes = {key: _shape(value) for key, value in kwargs.items()}
                found = tuple(_shape(value) for value in args)
                return formula(*found, out_shape=_shape(out_val), **shapes)

        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[getattr(target, "overloadpacket", target)] = function
        return formula

    return register


def _shape(value):
    if isinstance(value, rl.Tensor):
        return value.shape
    if isinstance(value, (list, tuple)) and any(
        isinstance(v, rl.Tensor) for v in value
    ):
        return type(value)(_shape(v) for v in value)
    return value


def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    """Of a product of matrices."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """Of a product of matrices; what is added is not counted."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    """Of a product for every one of a batch."""
    return 2 * math.prod(a_shape) * b_shape[-1]


def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """Of a product for every one of a batch; what is added is not counted."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """Of a convolution by its three shapes; groups are in the weight's."""
    positions = x_shape if transposed else out_shape
    kernel = math.prod(w_shape[2:])
    return 2 * x_shape[0] * math.prod(positions[2:]) * w_shape[0] * w_shape[1] * kernel


def conv_flop(
    x_shape, w_shape, bias, stride, padding, dilation, transposed, *args,
    out_shape=None, **kwargs,
):  # fmt: skip
    """Of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(
    grad_out_shape, x_shape, w_shape, bias, stride, padding, dilation, transposed,
    output_padding, groups, output_mask, out_shape=None, **kwargs,
):  # fmt: skip
    """Of the gradients that are wanted of a convolution.

    The weight's is counted as if every channel met every other one, in groups too: so
    does PyTorch.
    """
    count = 0
    if output_mask[0]:
        count += conv_flop_count(x_shape, w_shape, grad_out_shape, transposed)
    if output_mask[1]:
        positions = x_shape if transposed else grad_out_shape
        pairs = x_shape[0] * x_shape[1] * grad_out_shape[1]
        count += 2 * pairs * math.prod(w_shape[2:]) * math.prod(positions[2:])
    return count


aten = rl.ops.aten
register_flop_formula(aten.mm)(mm_flop)
register_flop_formula(aten.addmm)(addmm_flop)
register_flop_formula(aten.bmm)(bmm_flop)
register_flop_formula(aten.baddbmm)(baddbmm_flop)
register_flop_formula(aten.convolution)(conv_flop)
register_flop_formula(aten.convolution_backward)(conv_backward_flop)


class FlopCounterMode(TorchDispatchMode):
    """Counts what the products and convolutions of a ``with`` block take.

    Every module called in it is counted apart, and backward passes too.

    Args:
        mods: kept for programs that pass it; modules are found as they are called.
        depth: how deep in modules the table goes.
        display: whether the table is printed at the end.
        custom_mapping: from operators to formulas of their own.

    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = rl.nn.Linear(4, 3)(rl.ones(2, 4))
    >>> counter.get_total_flops()
    48
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        super().__init__()
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.formulas = dict(flop_registry)
        for packet, formula in (custom_mapping or {}).items():
            if getattr(formula, "_get_raw", False):
                self.formulas[packet] = formula
            else:
                register_flop_formula_in(self.formulas, packet, formula)
        self.running: tuple = ()  # names of the modules that have been called
        self.path: tuple = ()  # and of those that a backward pass goes through
        self.hooks: list = []

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict:
        """Of every module, by its path, and operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None) -> str:
        """Modules, their numbers and their shares."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        sums = {name: sum(c.values()) for name, c in self.flop_counts.items()}
        unit, letter = next((u for u in UNITS if total >= u[0]), UNITS[-1])
        rows = [("Module", "FLOP", "% Total")]
        for name in ["Global", *sorted(n for n in sums if n != "Global")]:
            if name.count(".") < depth and name in sums:
                rows.append(
                    (
                        "  " * name.count(".") + name,
                        f"{sums[name] / unit:.3f}{letter}",
                        f"{100 * sums[name] / max(total, 1):.2f}%",
                    )
                )
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            )
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines)

    def __enter__(self):
        from rushlight.nn.modules import module

        self.flop_counts.clear()
        self.names: dict = {}
        self.hooks = [
            module.register_module_forward_pre_hook(self._begin),
            module.register_module_forward_hook(self._end),
        ]
        super().__enter__()
        return self

    def __exit__(self, *raised):
        super().__exit__(*raised)
        for hook in self.hooks:
            hook.remove()
        self.running = self.path = ()
        if self.display:
            print(self.get_table())

    def _name(self, module):
        """A module's path: its place in the module that called it."""
        found = self.names.get(id(module))
        if found is None:
            found = type(module).__name__
            self.names[id(module)] = found
        for name, inner in module.named_modules():
            if inner is not module:
                self.names.setdefault(id(inner), f"{found}.{name}")
        return found

    def _begin(self, module, inputs):
        if not self.running:
            self.path = ()  # what a backward pass has left
        before = self.running
        own = self.running = (*before, self._name(module))
        for tensor in _tensors(inputs):
            if tensor.requires_grad:
                tensor.register_hook(lambda grad: self._leave(own))

    def _end(self, module, inputs, output):
        own, self.running = self.running, self.running[:-1]
        for tensor in _tensors(output):
            if tensor.requires_grad:
                tensor.register_hook(lambda grad: self._reach(own))

    # A tensor may be one module's output and another's input, and its hooks run in the
    # order of the forward pass: none may undo what one before it has said.

    def _reach(self, own):
        if self.path[: len(own)] != own:
            self.path = own

    def _leave(self, own):
        if self.path[: len(own)] == own:
            self.path = own[:-1]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func.overloadpacket
        formula = self.formulas.get(packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in {"Global", *(self.running or self.path)}:
                self.flop_counts[name][packet] += count
        return out


def register_flop_formula_in(formulas, packet, formula):
    """One formula of shapes for one counter alone."""

    def of_values(*args, out_val=None, **kwargs):
        shapes = {key: _shape(value) for key, value in kwargs.items()}
        found = tuple(_shape(value) for value in args)
        return formula(*found, out_shape=_shape(out_val), **shapes)

    formulas[packet] = of_values


def _tensors(value):
    if isinstance(value, rl.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
