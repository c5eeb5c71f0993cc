"""Operators of the database that are exported otherwise than by PyTorch, and why."""

_SYMBOLS = "its sizes follow from elements: there are no symbols for such"
_READ = "elements are read to know the sizes: there are no symbols for such"

KNOWN = {
    ("argwhere", "refused"): _SYMBOLS,
    ("bincount", "refused"): _SYMBOLS,
    ("combinations", "differs"): "PyTorch checks a size that it takes for unknown",
    ("masked_select", "refused"): _SYMBOLS,
    ("nn.functional.embedding_bag", "refused"): _READ,
    ("nonzero", "refused"): _SYMBOLS,
    ("tensor_split", "refused"): _READ,
    ("to_sparse", "refused"): "programs have dense tensors only",
    ("unique", "refused"): _SYMBOLS,
    ("unique_consecutive", "refused"): _SYMBOLS,
}
