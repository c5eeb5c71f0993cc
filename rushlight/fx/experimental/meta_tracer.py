"""Tracing with known sizes: programs that ask for them are followed by the numbers."""

import builtins
import functools
import warnings

import rushlight
from rushlight import nn
from rushlight.core.tensor import Tensor
from rushlight.fx import _names
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_aggregate
from rushlight.fx.proxy import Proxy

__all__ = [
    "MetaAttribute",
    "MetaDeviceAttribute",
    "MetaProxy",
    "MetaTracer",
    "embedding_override",
    "functional_relu_override",
    "gen_constructor_wrapper",
    "manual_meta_overrides",
    "nn_layernorm_override",
    "proxys_to_metas",
    "symbolic_trace",
    "torch_abs_override",
    "torch_nn_relu_override",
    "torch_relu_override",
    "torch_where_override",
]


def embedding_override(self, input):
    """What an embedding gives, without elements."""
    return rushlight.empty(*input.shape, self.weight.shape[-1], device="meta")


def nn_layernorm_override(self, input):
    """What a layer norm gives, without elements."""
    return input


def torch_relu_override(x):
    """What ``relu`` gives, without elements."""
    return x


def torch_nn_relu_override(self, x):
    """What a ``ReLU`` gives, without elements."""
    return x


def functional_relu_override(x, inplace=False):
    """What ``functional.relu`` gives, without elements.

    Raises:
        AssertionError: it is to write.
    """
    if inplace:
        raise AssertionError(
            "don't support inplace functional.relu for metatensor analysis"
        )
    return x


def torch_where_override(condition, x, y):
    """What ``where`` gives, without elements: its sizes are those of a sum."""
    return sum(one.to(device="meta") for one in (x, y)) + condition.to(device="meta")


def torch_abs_override(input, *, out=None):
    """What ``abs`` gives, without elements.

    Raises:
        AssertionError: it is to write.
    """
    if out is not None:
        raise AssertionError("Don't support in-place abs for MetaTensor analysis")
    return input


manual_meta_overrides = {
    nn.Embedding: embedding_override,
    nn.LayerNorm: nn_layernorm_override,
    rushlight.relu: torch_relu_override,
    nn.functional.relu: functional_relu_override,
    nn.ReLU: torch_nn_relu_override,
    rushlight.where: torch_where_override,
    rushlight.abs: torch_abs_override,
}


def gen_constructor_wrapper(target):
    """A function that makes a tensor, and one that is recorded where it is given proxies.

    Args:
        target: the function.

    Returns:
        the second, and the first.
    """

    @functools.wraps(target)
    def wrapper(*args, **kwargs):
        found = []

        def look(value):
            if isinstance(value, Proxy):
                found.append(value)

        map_aggregate((args, kwargs), look)
        if not found:
            return target(*args, **kwargs)
        return found[-1].tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


class MetaProxy(Proxy):
    """A proxy that knows the sizes and the type of what it stands for."""

    def install_tensor_meta(self, tensor_meta):
        """Has it know a tensor on ``meta``."""
        self._tensor_meta = tensor_meta

    def _known(self):
        return self.__dict__.get("_tensor_meta")

    def size(self, dim=None):
        """The sizes, or one of them, where they are known."""
        given = () if dim is None else (dim,)
        known = self._known()
        if known is not None:
            return known.size(*given)
        return self.tracer.create_proxy("call_method", "size", (self, *given), {})

    def dim(self):
        """How many dimensions there are, where that is known."""
        known = self._known()
        if known is not None:
            return known.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    def _read(self, name):
        known = self._known()
        if known is not None:
            return getattr(known, name)
        return self.tracer.create_proxy(
            "call_function", builtins.getattr, (self, name), {}
        )

    shape = property(lambda self: self._read("shape"), doc="The sizes.")
    dtype = property(lambda self: self._read("dtype"), doc="The type of the elements.")

    @property
    def device(self):
        """The device, for which ``meta`` stands where sizes are worked out."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k):
        if k == "_tensor_meta":
            raise AttributeError(k)
        return MetaAttribute(self, k)


class MetaAttribute(MetaProxy):
    """An attribute of a proxy: a step of its own only where it is no method's name."""

    def __init__(self, root, attr):
        self.root, self.attr = root, attr
        self.tracer = root.tracer
        self._node = None

    @property
    def node(self):
        """The step that reads it."""
        if self._node is None:
            read = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            )
            self._node = read.node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy(
            "call_method", self.attr, (self.root, *args), kwargs
        )


class MetaDeviceAttribute(MetaAttribute):
    """The device of a proxy."""


def proxys_to_metas(v):
    """What stands for a value where sizes are worked out.

    Raises:
        AssertionError: a proxy does not know its sizes.
    """
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    if not isinstance(v, MetaProxy):
        raise AssertionError(f"Expected MetaProxy but got {type(v)}")
    if "_tensor_meta" not in v.__dict__:
        raise AssertionError("MetaProxy does not have an associated meta")
    return v._tensor_meta


class MetaTracer(Tracer):
    """Traces a program whose arguments' sizes are known."""

    allow_insert_stateless_mods = True
    _TORCH_METHODS_TO_PATCH = ("arange", "zeros", "ones", "full_like", "eye")
    _reads_modules = False

    def create_proxy(
        self,
        kind,
        target,
        args,
        kwargs,
        name=None,
        type_expr=None,
        proxy_factory_fn=None,
    ):
        """A step; it knows its sizes, or a warning says why it does not."""
        made = super().create_proxy(
            kind, target, args, kwargs, name, type_expr, proxy_factory_fn
        )
        if kind == "placeholder" and target in self.meta_args:
            made.install_tensor_meta(self.meta_args[target])
            return made
        if kind not in ("call_function", "call_method", "call_module", "get_attr"):
            return made
        if target in self.orig_fns and "device" in kwargs:
            kwargs = {**kwargs, "device": "meta"}
        try:
            given = map_aggregate(args, proxys_to_metas)
            named = map_aggregate(kwargs, proxys_to_metas)
            made.install_tensor_meta(self._meta_of(kind, target, given, named))
        except Exception as error:
            warnings.warn(
                f"Could not compute metadata for {kind} target {target}: {error}",
                stacklevel=2,
            )
        return made

    def _meta_of(self, kind, target, args, kwargs):
        """What a step gives, without elements."""
        if kind == "call_function":
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        before, self._reads_modules = self._reads_modules, True
        try:
            if kind == "get_attr":
                value = functools.reduce(getattr, target.split("."), self.root)
                if not isinstance(value, Tensor):
                    raise AssertionError(f"Expected Tensor, got {type(value)}")
                return value.to(device="meta")
            module = self.root.get_submodule(target)
            override = manual_meta_overrides.get(type(module))
            if override is not None:
                return override(module, *args, **kwargs)
            return self.orig_forward(*args, **kwargs)
        finally:
            self._reads_modules = before

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """An attribute of a module; itself where sizes are worked out."""
        if self._reads_modules:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m, forward, args, kwargs):
        """A call of a module."""
        self.orig_forward = forward
        return super().call_module(m, forward, args, kwargs)

    def _insert_module_as_submodule(self, mod):
        """Gives a module that has no path one."""
        name = type(mod).__name__.lower()
        number = 0
        while hasattr(self.root, f"{name}_{number}"):
            number += 1
        self.root.add_module(f"{name}_{number}", mod)
        return f"{name}_{number}"

    def path_of_module(self, mod):
        """A module's path; one without tensors gets one where it has none."""
        try:
            return super().path_of_module(mod)
        except NameError:
            held = [*mod.parameters(), *mod.buffers()]
            if not self.allow_insert_stateless_mods or held:
                raise
            path = self._insert_module_as_submodule(mod)
            self.prev_module = path
            return path

    def proxy(self, node):
        """The proxy of a step."""
        return MetaProxy(node, self)

    def trace(self, root, meta_args, concrete_args=None):
        """The graph of a program.

        Args:
            root: a module or a function.
            meta_args: tensors on ``meta`` by the names of arguments.
            concrete_args: values of arguments that are no tensors.
        """
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args = meta_args
        _names.noted()  # steps are called by the names that functions have now
        pairs = {
            name: gen_constructor_wrapper(getattr(rushlight, name))
            for name in self._TORCH_METHODS_TO_PATCH
        }
        self.orig_fns = {original for _, original in pairs.values()}
        for name, (wrapper, _) in pairs.items():
            setattr(rushlight, name, wrapper)
        try:
            graph = super().trace(root, concrete_args)
            graph._tracer_extras = {"meta_args": meta_args}
            return graph
        finally:
            for name, (_, original) in pairs.items():
                setattr(rushlight, name, original)


def symbolic_trace(root, meta_args=None, concrete_args=None):
    """A module of the graph of a program whose arguments' sizes are known.

    Args:
        root: a module or a function.
        meta_args: tensors on ``meta`` by the names of arguments.
        concrete_args: values of arguments that are no tensors.

    >>> import rushlight as rl
    >>> def rows(x):
    ...     return rl.relu(x).view(x.size(0) * x.shape[1])
    >>> print(symbolic_trace(rows, {"x": rl.empty(2, 3, device="meta")}).code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        view = relu.view(6);  relu = None
        return view
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
