"""The small faults that a mutant is made of, as replacements of source text.

A mutation replaces one stretch of a source file; every other line keeps its number, so
that tracebacks and what reads sources (the kernel front end) see the file as it is.
Error messages, annotations, docstrings and defaults are left alone: a wrong word is no
wrong number.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "//",
    ast.Pow: "*",
    ast.MatMult: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
# Functions of two arguments that ask nothing of their order.
SYMMETRIC = ("min", "max")
COMPARISON = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


@dataclass(frozen=True, order=True)
class Mutation:
    """One replacement in one file.

    Args:
        path: the file, relative to the repository.
        line: the line of the mutated expression, counted from 1.
        start, end: the replaced stretch, in bytes of the file.
        text: what stands there instead.
        kind: what kind of fault it is.
    """

    path: str
    line: int
    start: int
    end: int
    text: str
    kind: str

    def apply(self, source: bytes) -> bytes:
        """The file's bytes with this fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def is_python(self, source: bytes) -> bool:
        """Whether the file with this fault still compiles."""
        try:
            compile(self.apply(source), "mutant", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True

    def describe(self, source: bytes) -> str:
        """Where the fault is, what was there and what is there now."""
        before = source[self.start : self.end].decode()
        return f"{self.path}:{self.line}: {self.kind}: `{before}` -> `{self.text}`"


class _Collector(ast.NodeVisitor):
    """Collects the mutations of function bodies."""

    def __init__(self, path, source):
        self.path = path
        self.source = source
        self.found = []
        self.depth = 0
        self.line_starts = [0]
        for line in source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    def place(self, node):
        start = self.line_starts[node.lineno - 1] + node.col_offset
        return start, self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        start, end = self.place(node)
        return self.source[start:end].decode()

    def replace(self, node, text, kind):
        if self.depth:
            start, end = self.place(node)
            self.found.append(Mutation(self.path, node.lineno, start, end, text, kind))

    def visit_FunctionDef(self, node):
        self.depth += 1
        body = node.body
        if ast.get_docstring(node, clean=False) is not None:
            body = body[1:]
        for statement in body:
            self.visit(statement)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.depth += 1
        self.visit(node.body)
        self.depth -= 1

    def visit_Raise(self, node):
        """Leaves out the words of an error."""

    def visit_Assert(self, node):
        """Leaves out what only checks."""

    def visit_JoinedStr(self, node):
        """Leaves out text."""

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        left, right = self.text(node.left), self.text(node.right)
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return
        sign = ARITHMETIC.get(type(node.op))
        if sign is not None:
            self.replace(node, f"({left} {sign} {right})", "operator swapped")
        if isinstance(node.op, ast.Mult | ast.MatMult):
            self.replace(node, f"({left})", "factor lost")
            self.replace(node, f"({right})", "factor lost")
        if isinstance(node.op, ast.Add | ast.Sub):
            self.replace(node, f"({left})", "term lost")

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1:
            sign = COMPARISON[type(node.ops[0])]
            left, right = self.text(node.left), self.text(node.comparators[0])
            self.replace(node, f"({left} {sign} {right})", "comparison changed")

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        sign = " or " if isinstance(node.op, ast.And) else " and "
        texts = [f"({self.text(value)})" for value in node.values]
        self.replace(node, f"({sign.join(texts)})", "and for or")
        self.replace(node, "(" + texts[0] + ")", "condition lost")

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Not | ast.USub):
            self.replace(node, f"({self.text(node.operand)})", "sign or not lost")

    def visit_If(self, node):
        self.negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self.negate(node.test)
        self.generic_visit(node)

    def negate(self, test):
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            self.replace(test, f"(not {self.text(test)})", "condition negated")

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value), "constant changed")
        elif isinstance(value, int):
            self.replace(node, f"({value + 1})", "constant changed")
        elif isinstance(value, float):
            self.replace(node, f"({value!r} * 2 + 1)", "constant changed")

    def visit_Call(self, node):
        self.generic_visit(node)
        plain = not any(isinstance(a, ast.Starred) for a in node.args)
        if plain and len(node.args) == 2 and not node.keywords:
            first, second = map(self.text, node.args)
            if first != second and self.text(node.func) not in SYMMETRIC:
                call = f"{self.text(node.func)}({second}, {first})"
                self.replace(node, call, "arguments exchanged")
        for dropped in node.keywords:
            if dropped.arg is None:
                continue
            kept = [self.text(a) for a in node.args]
            kept += [self.text(k) for k in node.keywords if k is not dropped]
            call = f"{self.text(node.func)}({', '.join(kept)})"
            self.replace(node, call, f"argument {dropped.arg} ignored")

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass", "statement lost")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.replace(node, "pass", "statement lost")
        self.visit(node.value)


def mutations(path: str, source: bytes) -> list[Mutation]:
    """Every mutation of a file; some may not compile (`Mutation.is_python`).

    >>> found = mutations("f.py", b"def f(a, b):\\n    return a * b\\n")
    >>> [one.text for one in found]
    ['(a / b)', '(a)', '(b)']
    """
    collector = _Collector(path, source)
    collector.visit(ast.parse(source))
    return collector.found
