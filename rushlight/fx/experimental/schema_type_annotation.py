"""Types of results, from the signatures of what gives them."""

import inspect

from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Transformer
from rushlight.fx.operator_schemas import get_signature_for_torch_op


class AnnotateTypesWithSchema(Transformer):
    """Notes at each step the type that a signature says it gives.

    Args:
        module: the module.
        annotate_functionals: whether functions are looked at.
        annotate_modules: whether modules are.
        annotate_get_attrs: whether reads of paths are.
    """

    def __init__(
        self,
        module,
        annotate_functionals=True,
        annotate_modules=True,
        annotate_get_attrs=True,
    ):
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target, args, kwargs):
        """Calls a function and notes the type of what it gives."""
        kind = None
        if self.annotate_functionals and callable(target):
            signatures = get_signature_for_torch_op(target)
            if signatures is not None:
                kinds = {str(each.return_annotation) for each in signatures}
                kind = signatures[0].return_annotation if len(kinds) == 1 else None
            elif inspect.isfunction(target):
                kind = self._extract_python_return_type(target)
        made = super().call_function(target, args, kwargs)
        made.node.type = made.node.type or kind
        return made

    def call_module(self, target, args, kwargs):
        """Calls a module and notes the type of what it gives."""
        made = super().call_module(target, args, kwargs)
        if self.annotate_modules:
            called = self.module.get_submodule(target)
            kind = self._extract_python_return_type(type(called).forward)
            made.node.type = made.node.type or kind
        return made

    def get_attr(self, target, args, kwargs):
        """Reads a path and notes that what is there is a tensor."""
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and isinstance(self.fetch_attr(target), Tensor):
            made.node.type = Tensor
        return made

    def _extract_python_return_type(self, target):
        """The type that a function's head names; None where it names none."""
        try:
            kind = inspect.signature(target).return_annotation
        except (TypeError, ValueError):
            return None
        if kind is inspect.Signature.empty or isinstance(kind, str):
            return None
        return kind
