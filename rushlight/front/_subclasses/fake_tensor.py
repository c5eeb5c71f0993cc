"""Tensors with everything but elements: shapes of a program's results without its work.

A fake tensor is a wrapper without memory. An operator on fake tensors runs on ``meta``
tensors of the same sizes and strides; its results are fake tensors again, on the device
that the real ones would be on.
"""

from __future__ import annotations

import contextlib
import functools
import math
import weakref

from rushlight._fake_context import FakeImplCtx, WantsContext, calling
from rushlight.core.device import Device
from rushlight.core.dtype import get_default_dtype
from rushlight.core.layout import Size, strided
from rushlight.core.subclass import make_wrapper, take_deferred, take_storage
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.dispatch.declared import rule_of, says
from rushlight.dispatch.disabled import _disabled_torch_function_impl
from rushlight.dispatch.library import with_fakes
from rushlight.graph import data_dependent
from rushlight.graph.equal_sizes import equal_pairs
from rushlight.graph.fake_conversion import (
    META,
    Geometry,
    Twins,
    dense_strides,
    exprs_of,
    geometry_of,
    place_of,
    sizes_of,
)
from rushlight.graph.fake_shapes import DerivedShapes
from rushlight.ir.formulas import number_in
from rushlight.ir.sizes import EXPRESSIONS, Unbacked
from rushlight.ir.symbolic import (
    LASTING,
    NATIVE,
    RECORDED,
    GuardError,
    SymInt,
    value_at,
)
from rushlight.operators import call
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "is_fake",
    "unset_fake_temporarily",
]


_ALL, _END = slice(None), 2**63 - 1
_READS = "_local_scalar_dense"


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor has no fake one."""


class DataDependentOutputException(RuntimeError):
    """An operator's result is a number that depends on the elements."""

    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """The shape of an operator's result depends on the elements."""

    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class UnsupportedOperatorException(RuntimeError):
    """Nothing is known of the shapes of an operator's results."""

    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """The tensors of one call would be on different devices."""


class FakeTensor(Tensor):
    """A tensor without elements, made by a `FakeTensorMode`.

    Attributes:
        fake_mode: the mode that it belongs to.
        fake_device: where the real tensor would be.
        constant: the real tensor of a number that was written down, or None.
    """

    sees_own_operators = True  # it runs them; nobody reads their names
    fake_mode: FakeTensorMode
    constant: Tensor | None

    __torch_function__ = _disabled_torch_function_impl

    @staticmethod
    def __new__(cls, fake_mode, elem, device, constant=None):
        device = Device(device)
        if device.type in ("cuda", "xpu") and device.index is None:
            device = Device(device.type, 0)
        made = make_wrapper(
            cls,
            tuple(elem.shape),
            elem.stride(),
            elem.storage_offset(),
            elem.dtype,
            strided,
            device,
            elem.untyped_storage().nbytes(),
        )
        take_deferred(made, elem)
        made.fake_mode = fake_mode
        made.constant = constant
        return made

    def __init__(self, *args, **kwargs):
        pass

    @property
    def shape(self):
        """Sizes; numbers that stand for any where the mode records such."""
        geometry = self.__dict__.get("_geometry")
        if geometry is None:
            return sizes_of(self)
        return Size(map(self.fake_mode.shape_env.number, geometry.sizes))

    def size(self, dim=None):
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self):
        """How many elements the real tensor would have."""
        return math.prod(self.shape)

    def item(self):
        """The one element: a number of the recording, if it may have such."""
        if self.constant is None and python_key.recording() and self.numel() == 1:
            return call.item(self)
        return super().item()

    def __len__(self):
        if not self.dim():
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __getitem__(self, index):
        if python_key.recording() and isinstance(index, slice) and index == _ALL:
            return call.slice(self, 0, 0, _END)
        return super().__getitem__(_as_arguments(index))

    def __setitem__(self, index, value):
        super().__setitem__(_as_arguments(index), value)

    @property
    def fake_device(self):
        """Where the real tensor would be."""
        return self.device

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        flat, _ = tree_flatten((args, kwargs or {}))
        modes = [one.fake_mode for one in flat if isinstance(one, FakeTensor)]
        for mode in modes:
            if mode is not modes[0]:
                raise AssertionError(f"Mixing fake modes NYI: {mode} and {modes[0]}")
        with modes[0]:
            return func(*args, **(kwargs or {}))

    def tolist(self):
        """Nested lists of numbers, which there are none of.

        Raises:
            DataDependentOutputException: always, but for the numbers written down.
        """
        if self.dim() == 0:
            return self.item()
        parts = call.unbind(self) if python_key.recording() else self
        return [one.tolist() for one in parts]

    def __deepcopy__(self, memo):
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __repr__(self, *, tensor_contents=None):
        parts = ["..."]
        if self.device.type != "cpu":
            parts.append(f"device='{self.device}'")
        parts.append(f"size={tuple(self.shape)}")
        if self.dtype is not get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            parts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    __str__ = __repr__


class FakeTensorMode(TorchDispatchMode):
    """Has all tensors of a block be fake: shapes, types and devices, but no elements.

    Args:
        allow_fallback_kernels: kept for PyTorch's programs; nothing falls back.
        allow_non_fake_inputs: whether real tensors may come in; they are made fake.

    >>> import rushlight as rl
    >>> with FakeTensorMode():
    ...     rl.ones(2, 3) @ rl.ones(3, 4)
    FakeTensor(..., size=(2, 4))
    """

    sees_own_operators = True
    enters_once = True

    def __init__(
        self,
        *,
        allow_fallback_kernels=True,
        allow_non_fake_inputs=False,
        shape_env=None,
        static_shapes=None,
        export=False,
    ):
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = True if static_shapes is None else static_shapes
        self.export = export
        self._twins = Twins()
        self._known: dict = {}

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the framework itself."""
        return True

    # -- from real tensors -------------------------------------------------------------

    def from_tensor(
        self,
        tensor,
        *,
        static_shapes=None,
        source=None,
        symbolic_context=None,
        trace=True,
    ):
        """The fake tensor of a real one; the same one each time.

        Args:
            tensor: a real tensor, or a fake one of this mode.
            source: what names the symbols of its sizes.

        Raises:
            AssertionError: it is another mode's.
        """
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        found = self._known.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        made = self._convert(tensor, source or "__meta_utils_unknown_tensor0")
        known = self._known
        key = id(tensor)
        known[key] = weakref.ref(tensor, lambda _: known.pop(key, None)), made
        return made

    def _convert(self, tensor, source):
        symbolic = self.shape_env is not None and not self.static_shapes
        with python_key.without_modes():
            if symbolic and not _is_parameter(tensor) and tensor.dim():
                env = self.shape_env
                sizes = [
                    env.symbol(n, source=f"{source}.size()[{dim}]")
                    for dim, n in enumerate(tensor.shape)
                ]
                made = self.symbolic(tensor, sizes)
            else:
                meta = self._twins.of_real(tensor)
                made = self._wrap(meta, tensor.device)
        if tensor.requires_grad:
            made.requires_grad_()
            if not tensor.is_leaf:
                with self:
                    made = call.alias(made)
        if getattr(tensor, "_is_param", False) or _is_parameter(tensor):
            made._is_param = True
        if tensor.is_leaf and tensor.grad is not None:
            made.grad = self.from_tensor(tensor.grad)
        return made

    def _wrap(self, meta, device, constant=None):
        """The fake tensor of a ``meta`` one."""
        made = FakeTensor(self, meta, device, constant)
        take_storage(made, self._twins.absent_of(meta, made))
        return made

    def symbolic(self, tensor, sizes):
        """A fake tensor like a real one with other sizes, some of which stand for any.

        Args:
            tensor: the real tensor; the order of its strides is kept.
            sizes: an int, or a number of ``shape_env``, for each dimension.
        """
        order = sorted(range(tensor.dim()), key=lambda dim: tensor.stride(dim))
        if tensor.is_contiguous():
            order = range(tensor.dim())[::-1]
        counted = [
            dim
            for dim in order
            if tensor.stride(dim) or tensor.shape[dim] == 1 or tensor.is_contiguous()
        ]
        strides = dense_strides(sizes, counted)
        fake = self.of_geometry(
            Geometry(sizes, strides, 0, tensor.dtype), tensor.device
        )
        take_deferred(fake, tensor)
        for dim, size in enumerate(sizes):
            symbol = size.expr if isinstance(size, SymInt) else None
            if getattr(symbol, "source", 0) is None:
                symbol.source = fake, dim
        return fake

    def _given(self, flat):
        """What an operator is called with: geometries, expressions and what else."""
        made: dict = {}
        found: list = []
        call_sizes = exprs_of(flat)
        for one in flat:
            if isinstance(one, FakeTensor):
                one = made.setdefault(id(one), self.geometry_of(one))
            elif isinstance(one, Device):
                one = META
            else:
                number = self.shape_env.recognized(one, call_sizes)
                one = number.expr if isinstance(number, SymInt) else number
            found.append(one)
        return found

    @staticmethod
    def _run(func, given, spec, device, point):
        """The operator on ``meta`` tensors of the sizes at a sample point.

        Returns:
            the geometries of its results, and of what it was given.
        """
        made: dict = {}
        placed = []
        for one in given:
            if isinstance(one, Geometry):
                if id(one) not in made:
                    made[id(one)] = one.meta(point)
                placed.append(made[id(one)])
            else:
                placed.append(value_at(one, point))
        args, kwargs = tree_unflatten(placed, spec)
        if device:
            kwargs["device"] = META
        with python_key.without_modes():
            results = tree_flatten(func(*args, **kwargs))[0]
        return list(map(geometry_of, results)), list(map(geometry_of, placed))

    def _is_symbolic(self, flat):
        env = self.shape_env
        if env is None or not env.symbols:
            return False
        for one in flat:
            if isinstance(one, FakeTensor):
                if "_geometry" in one.__dict__:
                    return True
            elif isinstance(env.recognized(one), SymInt):
                return True
        return False

    def _refuse(self, func, flat, error, run):
        """Says that a call fits the recorded sizes only, or those that are equal there.

        Raises:
            GuardError: always.
        """
        env = self.shape_env
        shown = [
            tuple(one.shape) if isinstance(one, FakeTensor) else env.recognized(one)
            for one in flat
        ]
        refusal = GuardError(
            f"{func}: works for some sizes only: {', '.join(map(str, shown))}\n  {error}"
        )
        points = range(4)  # the recording, and multiples of it
        refusal.equal = equal_pairs(run, exprs_of(flat), points)
        raise refusal from error

    # -- sizes that follow from elements -----------------------------------------------

    @property
    def elements(self):
        """The `Elements` of the recording; None where it may have none."""
        return None if self.shape_env is None else self.shape_env.elements

    def of_geometry(self, geometry, device, storage=None):
        """The fake tensor of a geometry.

        Args:
            geometry: of expressions, or numbers of the recording.
            device: where it is.
            storage: its memory; None for memory of its own.
        """
        with python_key.without_modes():
            made = self._wrap(geometry.meta(NATIVE, storage), device)
        self._shape(made, geometry)
        return made

    def geometry_of(self, fake):
        """The geometry of a fake tensor."""
        found = fake.__dict__.get("_geometry")
        return geometry_of(self._twins.of_fake(fake)) if found is None else found

    def memory_of(self, fake):
        """The ``meta`` storage that stands for a fake tensor's memory."""
        return self._twins.of_fake(fake).untyped_storage()

    def _shape(self, fake, geometry):
        """Gives a fake tensor a geometry; the sizes without a formula are its own."""
        if geometry is None or geometry.is_plain():
            fake.__dict__.pop("_geometry", None)
            return
        fake._geometry = geometry
        for dim, size in enumerate(geometry.sizes):
            if getattr(size, "tensor", 0) is None:
                size.tensor, size.dim = fake, dim
        self._are_sizes(fake)

    def _are_sizes(self, fake):
        """Sizes of a result that follow from elements are none below zero."""
        if self.elements is not None and self.elements.reads:
            for size in fake.shape:
                if isinstance(size, SymInt) and size.follows:
                    self.elements.natural(size)

    def _made_equal(self, func, flat, spec, device):
        """Looks for two sizes that have to be one for a call to be right.

        Raises:
            MustBeEqual: there are such.
        """
        if self.elements is None or not self.elements.reads:
            return
        sizes = list(
            dict.fromkeys(
                size
                for one in flat
                if isinstance(one, FakeTensor)
                for size in one.shape
                if size not in (0, 1)
            )
        )
        for one in reversed(sizes):
            if not isinstance(one, SymInt) or not isinstance(one.expr, Unbacked):
                continue
            for other in sizes:
                if other is not one and self._fits(
                    func, flat, spec, device, one, other
                ):
                    self.elements.merge(one.expr, getattr(other, "expr", other))

    def _fits(self, func, flat, spec, device, one, other):
        """Whether a call is right where a size is what another is."""

        def placed(value, point):
            if isinstance(value, FakeTensor):
                sizes = [other if size is one else size for size in value.shape]
                numbers = [value_at(size, point) for size in sizes]
                return call.empty(numbers, dtype=value.dtype, device=META)
            if isinstance(value, Device):
                return META
            return value_at(self.shape_env.recognized(value), point)

        for point in range(LASTING):
            args, kwargs = tree_unflatten([placed(each, point) for each in flat], spec)
            if device:
                kwargs["device"] = META
            try:
                func(*args, **kwargs)
            except Exception:  # whatever is wrong: the two need not be one
                return False
        return True

    # -- operators ---------------------------------------------------------------------

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat, spec = tree_flatten((args, kwargs))
        name = func._opname
        tensors = [one for one in flat if isinstance(one, Tensor)]
        if name == "lift_fresh":
            return self._lift(args[0])
        flat = [self._admitted(func, one, args, kwargs) for one in flat]
        fakes = [one for one in flat if isinstance(one, FakeTensor)]
        constant = self._constant(func, name, flat, spec, fakes)
        elements = self.elements
        if says(func, "number"):
            if constant is None and elements is not None and name == _READS:
                dtype = args[0].dtype
                return elements.once(args[0], "item", lambda: elements.read(dtype))
            if constant is None:
                raise DataDependentOutputException(func)
            return constant
        rule = None if elements is None else rule_of(func, "open_sizes", data_dependent)
        if rule is not None:
            args, kwargs = tree_unflatten(flat, spec)
            made = rule(self, *args, **kwargs)
            if made is not NotImplemented:
                return made
        if says(func, "data_dependent") or _repeats_by_tensor(name, flat):
            raise DynamicOutputShapeException(func)
        if name == "index" and any(not one.dtype.itemsize - 1 for one in fakes[1:]):
            # a mask: PyTorch looks for its places first
            raise DynamicOutputShapeException(call.nonzero.overloads[0])
        device = self._device_of(func, flat, fakes)
        twins = [
            self._twins.of_fake(one) if isinstance(one, FakeTensor) else one
            for one in flat
        ]
        metas = [Device("meta") if isinstance(one, Device) else one for one in twins]
        meta_args, meta_kwargs = tree_unflatten(metas, spec)
        if not tensors and func.signature.names and "device" in func.signature.names:
            meta_kwargs["device"] = Device("meta")
        symbolic = self._is_symbolic(flat)
        placed = "device" in meta_kwargs
        given = self._given(flat) if symbolic else ()
        try:
            with calling(retries=func in with_fakes):
                result = func(*meta_args, **meta_kwargs)
        except WantsContext:
            context = FakeImplCtx(elements, DynamicOutputShapeException(func))
            args, kwargs = tree_unflatten(flat, spec)
            with self, calling(context):
                return with_fakes[func](*args, **kwargs)
        except NotImplementedError as error:
            raise UnsupportedOperatorException(func) from error
        except Exception as error:
            if symbolic:
                self._made_equal(func, flat, spec, placed)
                if any(number_in(one) for one in given if isinstance(one, EXPRESSIONS)):
                    raise elements.refused(f"call {func}") from error
                # does the program itself work?
                run = functools.partial(
                    self._run, func, self._given(flat), spec, placed
                )
                run(RECORDED)
                self._refuse(func, flat, error, run)
            raise
        shapes = None
        if symbolic:
            run = functools.partial(self._run, func, given, spec, placed)
            shapes = DerivedShapes(self.shape_env, run, given)
            try:
                shapes.sample(tree_flatten(result)[0], twins)
            except Exception as error:
                self._made_equal(func, flat, spec, placed)
                self._refuse(func, flat, error, run)
            if isinstance(result, (list, tuple)) and len(func.returns) == 1:
                shapes.require_parts()
        self._update(flat, twins, func)
        originals = {id(t): one for t, one in zip(twins, flat) if t is not one}

        def wrapped(value):
            if not isinstance(value, Tensor):
                return value
            found = originals.get(id(value))
            if found is not None:
                return found
            kept = constant if isinstance(constant, Tensor) else None
            fake = self._wrap(value, device, kept)
            if shapes is not None:
                self._shape(fake, shapes.of_result(value))
            return fake

        if shapes is not None and func.form:
            for at, one in enumerate(flat):
                if isinstance(one, FakeTensor) and shapes.changed(at):
                    self._shape(one, shapes.of_argument(at))
        return tree_map(wrapped, result)

    def _admitted(self, func, value, args, kwargs):
        """An argument that may come in: fake tensors of this mode, and no tensors."""
        if not isinstance(value, Tensor):
            return value
        if isinstance(value, FakeTensor):
            if value.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return value
        if not self.allow_non_fake_inputs and not value.is_meta:
            listed = [
                *map(_shown, args),
                *(f"{k}={_shown(v)}" for k, v in kwargs.items()),
            ]
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate "
                "FakeTensorMode with 'allow_non_fake_inputs'. Found in "
                f"{func}({', '.join(listed)})"
            )
        return self.from_tensor(value)

    def _lift(self, tensor):
        """The fake tensor of numbers that a program has written down."""
        if isinstance(tensor, FakeTensor):
            return tensor
        with python_key.without_modes():
            meta = self._twins.of_real(tensor, shared=False)
            return self._wrap(meta, tensor.device, tensor.clone())

    def _constant(self, func, name, flat, spec, fakes):
        """What an operator gives for numbers that were written down, or None."""
        written = func.form or any(row[5] & 1 for row in func.signature.rows)
        if written:
            for one in flat:
                if isinstance(one, FakeTensor):
                    one.constant = None
            return None
        if (
            not fakes
            or any(one.constant is None for one in fakes)
            or says(func, "random")
            or says(func, "unset")
        ):
            return None
        real = [one.constant if isinstance(one, FakeTensor) else one for one in flat]
        args, kwargs = tree_unflatten(real, spec)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.numel() > 1:
            return None
        return result

    def _device_of(self, func, flat, fakes):
        """Where the results are: what was asked for, or where the arguments are."""
        wanted = [one for one in flat if isinstance(one, Device)]
        if wanted:
            return wanted[0]
        found = None
        for one in fakes:
            here = place_of(one)
            if found is None or (found[1] and not here[1]):
                found = here
            elif not here[1] and here[0] != found[0]:
                raise FakeTensorDeviceMismatchError(
                    "Expected all tensors to be on the same device, but found at least "
                    f"two devices, {found[0]} and {here[0]}!"
                )
        return Device("cpu") if found is None else found[0]

    def _update(self, flat, twins, func):
        """Gives what was written the sizes that it has by now."""
        if not func.form:
            return
        for one, twin in zip(flat, twins):
            if isinstance(one, FakeTensor) and one is not twin:
                self._twins.follow(one, twin)


def _as_recorded(name, operator):
    """A method that is an operator of its own in programs that are written down."""
    plain = getattr(Tensor, name)

    def method(self, *others):
        if python_key.recording():
            try:
                return operator(self, *others)
            except TypeError:
                return NotImplemented if others else plain(self)
        return plain(self, *others)

    return method


for _name in "and or xor lshift rshift iand ior ixor ilshift irshift".split():
    _name = f"__{_name}__"
    setattr(FakeTensor, _name, _as_recorded(_name, getattr(call, _name)))


def _property_as_recorded(name, operator):
    plain = vars(Tensor)[name]

    def value(self):
        return operator(self) if python_key.recording() else plain.__get__(self)

    return property(value)


for _name, _operator in (("T", call.numpy_T), ("mT", call.mT), ("mH", call.mH),
                         ("H", call.matrix_H)):  # fmt: skip
    setattr(FakeTensor, _name, _property_as_recorded(_name, _operator))


def _as_arguments(index):
    """An index whose numbers are those that operators are called with."""
    if isinstance(index, FakeTensor) and _is_read(index):
        index = index.item()
    if isinstance(index, SymInt):
        return index._as_argument()
    if isinstance(index, slice):
        parts = index.start, index.stop, index.step
        return slice(*map(_as_arguments, parts))
    if isinstance(index, tuple):
        return tuple(map(_as_arguments, index))
    return index


def _is_read(index):
    """Whether a tensor is a number that is read out of it, as an index."""
    return (
        python_key.recording()
        and index.constant is None
        and index.fake_mode.elements is not None
        and index.dim() == 0
        and index.dtype.is_signed
        and not (index.dtype.is_floating_point or index.dtype.is_complex)
    )


def _repeats_by_tensor(name, flat):
    return (
        name == "repeat_interleave"
        and len(flat) > 0
        and (len(flat) == 1 or isinstance(flat[1], Tensor))
        and not any(
            isinstance(one, int) and not isinstance(one, bool) for one in flat[2:]
        )
    )


def _is_parameter(tensor):
    from rushlight.nn.parameter import Parameter

    return isinstance(tensor, Parameter)


def _shown(value):
    """An argument as errors show it: of tensors, how many numbers there are."""
    if isinstance(value, FakeTensor) or not isinstance(value, Tensor):
        return repr(value)
    return f"tensor([...], size={tuple(value.shape)})"


@contextlib.contextmanager
def unset_fake_temporarily():
    """A block without fake modes; it yields the innermost one."""
    stack = python_key.modes()
    fake = [mode for mode in stack if isinstance(mode, FakeTensorMode)]
    with python_key.without_modes():
        others = [mode for mode in stack if mode not in fake]
        for mode in others:
            python_key.push_mode(mode)
        try:
            yield fake[-1] if fake else None
        finally:
            for _ in others:
                python_key.pop_mode()


def is_fake(value):
    """Whether a value is a fake tensor, or a wrapper around one."""
    if isinstance(value, FakeTensor):
        return True
    flatten = getattr(type(value), "__tensor_flatten__", None)
    if not isinstance(value, Tensor) or flatten is None:
        return False
    names, _ = value.__tensor_flatten__()
    return all(is_fake(getattr(value, name)) for name in names)
