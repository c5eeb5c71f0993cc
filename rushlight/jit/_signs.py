"""The signs of Python's expressions, and the operators and methods that they are."""

import ast

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.FloorDiv: "floordiv",
    ast.MatMult: "matmul",
    ast.BitAnd: "__and__",
    ast.BitOr: "__or__",
    ast.BitXor: "__xor__",
    ast.LShift: "__lshift__",
    ast.RShift: "__rshift__",
}
TENSOR_FORMS = {
    "floordiv": "floor_divide",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
# Operators of a number and a tensor -> of the tensor and the number.
MIRRORED = {"add": "add", "mul": "mul", "eq": "eq", "ne": "ne"}
MIRRORED |= {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
COMPARED = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
OVERLOADED = {
    "neg": "__neg__",
    "bitwise_not": "__invert__",
    "add": "__add__",
    "sub": "__sub__",
    "mul": "__mul__",
    "div": "__truediv__",
    "remainder": "__mod__",
    "pow": "__pow__",
    "floordiv": "__floordiv__",
    "matmul": "__matmul__",
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__lt__",
    "le": "__le__",
    "gt": "__gt__",
    "ge": "__ge__",
}
