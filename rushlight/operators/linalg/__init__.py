"""Operators: factorizations, equations, functions of matrices."""
