"""Programs traced with their ``assert`` and their annotations, from their source."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
from types import FunctionType

import rushlight
from rushlight.core import naming
from rushlight.fx._symbolic_trace import Tracer
from rushlight.nn.modules.module import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Writes a function anew: ``assert`` as a call of ``torch._assert``, which is traced,
    and an annotated assignment as one of ``annotate(value, type)``."""

    def rewrite(self, fn):
        """The new function, with the variables around the old one.

        Args:
            fn: a function whose source can be read.
        """
        source = textwrap.dedent("".join(inspect.getsourcelines(fn)[0]))
        tree = ast.fix_missing_locations(self.visit(ast.parse(source)))
        around = dict(fn.__globals__)
        around.pop(fn.__name__, None)
        exec(compile(tree, "", "exec"), around)
        made = around[fn.__name__]
        names = fn.__globals__
        if "torch" not in names:
            names = {**names, "torch": rushlight}
        again = FunctionType(
            made.__code__, names, made.__name__, made.__defaults__, made.__closure__
        )
        again = functools.update_wrapper(again, made)
        again.__kwdefaults__ = copy.copy(made.__kwdefaults__)
        return again

    def visit_Assert(self, node):
        """``assert`` as a call."""
        call = ast.parse("torch._assert()", mode="eval").body
        call.args = [node.test, node.msg or ast.Constant(value="", kind=None)]
        return ast.copy_location(ast.Expr(value=call), node)

    def visit_AnnAssign(self, node):
        """An annotated assignment as one of what ``annotate`` gives."""
        call = ast.Call(
            func=ast.Name(id="annotate", ctx=ast.Load()),
            args=[node.value, node.annotation],
            keywords=[],
        )
        return ast.Assign(targets=[node.target], value=call)


class RewritingTracer(Tracer):
    """Traces programs as `AST_Rewriter` writes them.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> class Positive(rl.nn.Module):
    ...     def forward(self, x):
    ...         assert x.sum() > 0
    ...         return x * 2
    >>> "_assert" in str(RewritingTracer().trace(Positive()))
    True
    """

    def trace(self, root, concrete_args=None):
        """The graph of a program; see `Tracer`."""
        return super().trace(_rewritten(root), concrete_args)


def _rewritten(program):
    if not isinstance(program, Module):
        return AST_Rewriter().rewrite(program)

    class RewrittenModule(Module):
        """A module with its ``forward`` written anew, and those of the modules inside."""

        def __init__(self, original):
            super().__init__()
            for name, value in vars(original).items():
                vars(self)[name] = copy.copy(value)
            inside = original._modules
            self._modules = {n: m and _rewritten_inside(m) for n, m in inside.items()}

    RewrittenModule.forward = AST_Rewriter().rewrite(type(program).forward)
    return RewrittenModule(program)


def _rewritten_inside(module):
    """A module inside of a program; the package's own stay what they are."""
    own = naming.is_own(type(module).__module__)
    return module if own else _rewritten(module)
