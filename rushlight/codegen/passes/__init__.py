"""The passes of `lower`, one module for each, named by what it does."""
