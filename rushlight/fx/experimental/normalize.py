"""Graphs whose calls are all written in one way."""

import operator

from rushlight.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import map_aggregate
from rushlight.fx.operator_schemas import (
    create_type_hint,
    normalize_function,
    normalize_module,
)
from rushlight.fx.proxy import Proxy
from rushlight.operators import call


class NormalizeArgs(Transformer):
    """Writes arguments by their names, with all defaults.

    Args:
        module: the module.
        normalize_to_only_use_kwargs: whether none stays positional.

    >>> import rushlight.nn.functional as F
    >>> from rushlight import fx
    >>> made = NormalizeArgs(fx.symbolic_trace(lambda x: F.pixel_shuffle(x, 2))).transform()
    >>> made.graph.output_node().args[0].kwargs["upscale_factor"]
    2
    """

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.node_map = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n):
        """Runs a step, with the types of what it takes where they are noted."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind_of(arg):
            if isinstance(arg, Proxy) and arg in self.node_map:
                return self.node_map[arg].meta.get("type", None)
            return type(arg)

        arg_types = map_aggregate(n.args, lambda a: kind_of(a))
        kwarg_types = {key: kind_of(value) for key, value in kwargs.items()}
        arg_types = tuple(
            create_type_hint(self.node_map[a].meta.get("type"))
            if isinstance(a, Proxy) and a in self.node_map
            else type(a)
            for a in args
        )
        if n.op == "call_function":
            made = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            made = super().run_node(n)
        if n.op != "output":
            self.node_map[made] = n
            made.node.meta = n.meta
            made.node.type = n.type
        return made

    def call_function(self, target, args, kwargs, arg_types=None, kwarg_types=None):
        """Calls a function with its arguments by name."""
        if not callable(target):
            raise AssertionError(f"Expected callable target, got {type(target)}")
        known = arg_types is not None and all(kind is not None for kind in arg_types)
        try:
            found = normalize_function(
                target,
                args,
                kwargs,
                arg_types if known else None,
                kwarg_types if known else None,
                self.normalize_to_only_use_kwargs,
            )
        except RuntimeError:  # several signatures fit: it stays as it is
            found = None
        if found is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy(
            "call_function", target, found.args, found.kwargs
        )

    def call_module(self, target, args, kwargs):
        """Calls a module with its arguments by name."""
        found = normalize_module(
            self.module, target, args, kwargs, self.normalize_to_only_use_kwargs
        )
        return super().call_module(target, *(found or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """Writes operators of the package as Python's, where they are the same."""

    binary_magic_method_remap = {
        call.add: operator.add,
        call.mul: operator.mul,
        call.sub: operator.sub,
        call.div: operator.truediv,
        call.floor_divide: operator.floordiv,
        call.remainder: operator.mod,
        call.eq: operator.eq,
        call.ne: operator.ne,
        call.lt: operator.lt,
        call.le: operator.le,
        call.gt: operator.gt,
        call.ge: operator.ge,
    }

    def call_function(self, target, args, kwargs):
        """Calls a function, or Python's operator in its place."""
        plain = self.binary_magic_method_remap.get(target)
        if plain is None or len(args) != 2 or kwargs:
            return super().call_function(target, args, kwargs)
        return super().call_function(plain, args, {})
