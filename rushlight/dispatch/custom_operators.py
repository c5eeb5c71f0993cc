"""Python functions as operators, and what can be said of those from outside."""

import contextlib
import functools
import logging

from rushlight.core.facts import bump_version
from rushlight.core.tensor import Tensor
from rushlight.dispatch import python_key
from rushlight.dispatch.dispatcher import Operator, packets
from rushlight.dispatch.infer import infer_schema
from rushlight.dispatch.keys import DispatchKey, keys_named
from rushlight.dispatch.library import (
    Library,
    _excluded,
    _fragment,
    find_operator,
    impl,
    make_general,
    qualname_of,
    register_autograd,
    register_fake,
)
from rushlight.dispatch.rules_from_outside import (
    register_jvp,
    register_torch_dispatch,
    register_vmap,
)

_LOG = logging.getLogger(__name__)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Say in which type an operator computes in a block of autocast.

    Args:
        op: the operator, or its name ``ns::name``.
        device_type: ``"cpu"`` or ``"cuda"``.
        cast_inputs: what floating point arguments on the device are cast to, but those
            of 64 bits.
        lib: the library that the rule goes away with.

    Raises:
        ValueError: it is no operator and no name of one, or there is no such device.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_autocast::sine", mutates_args=())
    ... def sine(x: rl.Tensor) -> rl.Tensor:
    ...     return x.sin()
    >>> rl.library.register_autocast("doc_autocast::sine", "cpu", rl.bfloat16)
    >>> with rl.autocast("cpu"):
    ...     sine(rl.ones(1)).dtype
    rushlight.bfloat16
    """
    if not isinstance(op, (str, Operator, CustomOpDef)):
        raise ValueError(
            f"register_autocast({op}): got unexpected type for op: {type(op)}"
        )
    if device_type not in _AUTOCAST_KEYS:
        raise ValueError(f"Unknown device type: {device_type}")
    found = op if isinstance(op, Operator) else find_operator(qualname_of(op))
    library = lib or _fragment(found.namespace)

    def cast(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(cast, value))
        if not isinstance(value, Tensor) or value.device.type != device_type:
            return value
        wide = not value.is_floating_point() or value.dtype.itemsize > 4
        return value if wide else value.to(cast_inputs)

    def run(keys, *args):
        rest = keys.remove(DispatchKey.Autocast)
        if not python_key.casting(device_type):
            return found.redispatch(rest, *args)
        with _excluded(DispatchKey.Autocast):
            return found.redispatch(rest, *map(cast, args))

    library.impl(found, run, _AUTOCAST_KEYS[device_type], with_keyset=True)


_AUTOCAST_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}


class CustomOpDef:
    """An operator made of a Python function by `custom_op`.

    Args:
        qualname: ``"namespace::name"``.
        schema: its schema, without the name.
        function: what it computes.
        device_types: the kinds of devices that the function is for; None for all.
    """

    def __init__(self, qualname, schema, function, device_types):
        self._function = function
        self._kernels: set = set()  # devices with a kernel of their own
        self._disabled: set = set()  # those of them that do without it now
        self._qualname = qualname
        self._namespace, _, self._name = qualname.partition("::")
        self._lib = Library(self._namespace, "FRAGMENT")
        self._lib.define(self._name + schema)
        self._packet = packets()[(self._namespace, self._name)]
        self._gives_nothing = schema.rstrip().endswith("-> ()") and "!" in schema
        self.register_kernel(device_types or "default", function)
        self._lib.impl(self._name, self._without_fake, "Meta")
        self.register_autograd(None)
        replaceable = keys_named("Meta") + keys_named("Autograd")
        make_general(self._lib._operator(self._name), replaceable)
        functools.update_wrapper(self, function)

    def register_kernel(self, device_types, fn=None):
        """Run ``fn`` on these device types."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        several = isinstance(device_types, (list, tuple))
        for device in device_types if several else (device_types,):
            self._kernels.add(device)
            kernel = self._checked(self._chosen(fn, device))
            impl(self._qualname, device, kernel, lib=self._lib)
        return fn

    def _chosen(self, fn, device):
        """A device's kernel, or the first function where that one is disabled."""
        if fn is self._function:
            return fn

        @functools.wraps(fn)
        def chosen(*args, **kwargs):
            function = self._function if device in self._disabled else fn
            return function(*args, **kwargs)

        return chosen

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """A block in which a device's kernel runs, or the operator's own function.

        Args:
            device_type: such as ``"cpu"``.
            enabled: whether the kernel runs.

        >>> import rushlight as rl
        >>> @rl.library.custom_op("doc_enabled::twice", mutates_args=())
        ... def twice(x: rl.Tensor) -> rl.Tensor:
        ...     return x * 2
        >>> _ = twice.register_kernel("cpu", lambda x: x + x + 0)
        >>> with twice.set_kernel_enabled("cpu", enabled=False):
        ...     twice(rl.ones(1))
        tensor([2.])
        """
        before = device_type in self._disabled
        if device_type not in self._kernels:
            _LOG.warning(
                "Attempted to %s kernel for %s but no kernel was registered for this "
                "device type.",
                "enable" if enabled else "disable",
                device_type,
            )
        elif before is not enabled:
            _LOG.warning(
                "Attempted to %s kernel for %s but it was already %s.",
                *(("enable", device_type, "enabled") if enabled else
                  ("disable", device_type, "disabled")),
            )  # fmt: skip
        change = self._disabled.discard if enabled else self._disabled.add
        try:
            change(device_type)
            yield
        finally:
            restore = self._disabled.add if before else self._disabled.discard
            restore(device_type)

    def register_autocast(self, device_type, cast_inputs):
        """Say in which type the operator computes in a block of autocast."""
        register_autocast(self._qualname, device_type, cast_inputs, lib=self._lib)

    def _checked(self, fn):
        """A kernel whose writes are counted and whose results are new."""
        rows = enumerate(self._opoverload.op.signature.rows)
        written = [(i, row[0]) for i, row in rows if row[5] & 1]

        @functools.wraps(fn)
        def checked(*args, **kwargs):
            result = fn(*args, **kwargs)
            if result is not None:
                _refuse_shared(self._name, (*args, *kwargs.values()), result)
            if written:
                for place, name in written:
                    given = args[place] if place < len(args) else kwargs.get(name)
                    for one in (given,) if isinstance(given, Tensor) else given or ():
                        bump_version(one)
            return result

        return checked

    def _without_fake(self, *args, **kwargs):
        """What runs for shapes while no function for these is registered.

        Raises:
            RuntimeError: the operator has results.
        """
        if self._gives_nothing:
            return None
        raise RuntimeError(
            f"There was no fake impl registered for {self!r}. This is necessary for "
            "torch.compile/export/fx tracing to work. Please use "
            f"`{self._function.__name__}.register_fake` to add a fake impl."
        )

    def register_fake(self, fn):
        """Use ``fn`` for shapes."""
        return register_fake(self._qualname, fn, lib=self._lib)

    def register_autograd(self, backward, *, setup_context=None):
        """Make the operator differentiable."""
        register_autograd(
            self._qualname, backward, setup_context=setup_context, lib=self._lib
        )

    def register_vmap(self, func=None):
        """Say what ``vmap`` does with the operator."""
        return register_vmap(self._qualname, func, lib=self._lib)

    def register_jvp(self, func=None):
        """Say how forward mode moves the operator's results."""
        if func is None:
            return self.register_jvp
        return register_jvp(self._qualname, func, lib=self._lib)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Say what a mode, or a type of tensors, does with the operator."""
        return register_torch_dispatch(
            self._qualname, torch_dispatch_class, fn, lib=self._lib
        )

    @property
    def _opoverload(self):
        return self._packet.default

    def __call__(self, *args, **kwargs):
        return self._packet(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


def _memories(values):
    for value in values:
        if isinstance(value, Tensor):
            yield id(value.untyped_storage())
        elif isinstance(value, (list, tuple)):
            yield from _memories(value)


def _refuse_shared(name, args, result):
    """Refuses results that are arguments, or see the memory of one or of another."""
    seen = set(_memories(args))
    for memory in _memories((result,)):
        if memory in seen:
            raise RuntimeError(
                f"{name}: The output of this custom operator (1) must not also be an "
                "input to this custom operator and (2) may not alias any inputs to this "
                "custom operator or other returns. The most common way to trigger this "
                "error is if we have y = custom_op(x) and y and x are the same Tensor. "
                "Please instead return a clone of the offending output tensor(s) (e.g. "
                "return x.clone()) or refactor the custom operator to not return y."
            )
        seen.add(memory)


def custom_op(
    name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None
):
    """Make a Python function an operator, its schema read from the annotations.

    Args:
        name: ``"namespace::name"``.
        fn: the function; a decorator without it.
        mutates_args: the names of the arguments that it writes to.
        device_types: the kinds of devices that the function is for; None for all.
        schema: its schema, in place of the annotations.
        tags: accepted.

    Raises:
        ValueError: an annotation has no schema type.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_custom::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> rl.ops.doc_custom.twice(rl.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return lambda function: custom_op(
            name,
            function,
            mutates_args=mutates_args,
            device_types=device_types,
            schema=schema,
            tags=tags,
        )
    return CustomOpDef(
        name, schema or infer_schema(fn, mutates_args=mutates_args), fn, device_types
    )
