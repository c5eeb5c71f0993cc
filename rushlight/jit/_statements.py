"""Statements of programs, and whole functions."""

import ast

from rushlight.jit import _exits, _types
from rushlight.jit._loops import Loops
from rushlight.jit._sources import unsupported
from rushlight.jit._sugar import Closure


class Statements(Loops):
    """Translates statements into nodes."""

    def __init__(self, unit, source, graph, names, function, self_type):
        super().__init__(unit, source, graph)
        self.names, self.function, self.self_type = names, function, self_type
        self.env: dict = {}
        self.expected = None
        self.last_return = None  # the statement that was translated last
        self.ends = False  # what was translated last always raises
        self.result_types: list = []

    def whole(self, tree):
        """The function's graph."""
        for argument in self.function.schema.arguments:
            self.env[argument.name] = self.graph.param(argument.type, argument.name)
        if self.self_type is not None:  # the program may call it otherwise
            self.env[(tree.args.posonlyargs + tree.args.args)[0].arg] = self.env["self"]
        body = tree.body
        if (
            isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            body = body[1:]
        statements = _exits.Rewriter().function(body, tree)
        returned = statements.pop() if isinstance(statements[-1], ast.Return) else None
        self.statements(statements)
        self.graph.name_late()
        if returned is None or self.ends and _exits.RESULT not in self.env:
            self.graph.returns.add(self.none(tree))
            return
        value = self.value(self.env[_exits.RESULT], tree)
        self.graph.returns.add(value)

    def statements(self, statements):
        """Statements one after the other; whether they always raise is in ``ends``."""
        self.ends = False
        for statement in statements:
            way = getattr(self, "do_" + type(statement).__name__.lower(), None)
            if way is None:
                raise unsupported(statement, self.place(statement))
            way(statement)
            if self.ends:
                return

    def do_pass(self, tree):
        """Nothing."""

    def do_expr(self, tree):
        """An expression for its effect."""
        if isinstance(tree.value, ast.Constant):
            return
        self.sugar(tree.value)

    def do_import(self, tree):
        """Imports inside of functions."""
        raise unsupported(tree, self.place(tree))

    def do_functiondef(self, tree):
        """A function inside of one: only archives have them, for ``fork``."""
        if not tree.name.startswith("__forked_function"):
            raise unsupported(tree, self.place(tree))
        self.env[tree.name] = Closure(tree)

    def inside(self, tree):
        """The value of a function's body, which sees the names here."""
        before, result = dict(self.env), self.function.schema.returns
        infer, self.function.infer = self.function.infer, True
        statements = _exits.Rewriter().function(tree.body, tree)
        statements.pop()
        self.statements(statements)
        value = self.value(self.env[_exits.RESULT], tree)
        self.env, self.function.infer, self.function.schema.returns = (
            before,
            infer,
            result,
        )
        return value

    def do_with(self, tree):
        """``with``: modes of gradients, and objects with ``__enter__``."""
        import rushlight as torch

        entered = []
        for item in tree.items:
            call = item.context_expr
            callee = (
                self.sugar(call.func)
                if isinstance(call, ast.Call)
                else self.sugar(call)
            )
            python = getattr(callee, "python", None)
            if python in (torch.no_grad, torch.enable_grad):
                before = self.call("aten::is_grad_enabled", [], tree)
                on = self.constant(python is torch.enable_grad, tree)
                self.call("aten::set_grad_enabled", [on], tree)
                entered.append(("grad", before))
                continue
            value = self.value(self.sugar(call), tree)
            if not isinstance(value.type, _types.ClassType):
                raise self.refuse(
                    "with statements take objects with __enter__ and __exit__", tree
                )
            got = self.call_method(value, "__enter__", [], {}, tree)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, got, tree)
            entered.append(("object", value))
        self.statements(tree.body)
        ends, self.ends = self.ends, False
        for kind, value in reversed(entered):
            if kind == "grad":
                self.call("aten::set_grad_enabled", [value], tree)
            else:
                nothing = [self.none(tree)] * 3
                self.call_method(value, "__exit__", nothing, {}, tree)
        self.ends = ends


def compile_function(unit, source, tree, names, function, graph, self_type):
    """Fills a graph with a function's program."""
    Statements(unit, source, graph, names, function, self_type).whole(tree)
