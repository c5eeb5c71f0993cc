"""Operators: recurrent layers."""
