"""Operators of the database that are exported otherwise than by PyTorch, and why."""

_READ = "elements are read to know the sizes"

KNOWN = {
    ("combinations", "differs"): "PyTorch checks a size that it takes for unknown",
    ("tensor_split", "differs"): "PyTorch checks where in memory the parts begin, too",
    ("to_sparse", "refused"): "programs have dense tensors only",
}
