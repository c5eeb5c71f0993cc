"""PyTorch's overloads that are here forms or wider overloads of other names."""

# Arguments that PyTorch has in overloads of their own are optional here.
_OPTIONAL = frozenset(
    "input int dim dim_dtype dtype vec hacked_twin Tensor_hacked_twin IntList Tensor "
    "generator low_generator Tensor_generator generator_with_names center periodic "
    "periodic_alpha beta periodic_alpha_beta".split()
)
# What `out=` is called where the results have no names of their own.
_RESULTS = frozenset("grad_input output result eigvals".split())
_NUMBER_OR_TENSOR = 4  # the kind of argument that takes both


def covering(overloads, wanted):
    """The operator that does what the overload called ``wanted`` does in PyTorch.

    Args:
        overloads: the operators of a name.
        wanted: PyTorch's name of an overload that none of them has.

    Returns:
        An operator, or None.
    """
    if "out" in wanted.lower() and wanted != "output":
        return _writing(overloads, wanted)
    return _wider(overloads, wanted)


def _own(op):
    return op.full_name.partition(".")[2] or "default"


def _wider(overloads, wanted):
    """An overload that takes what the wanted one takes, and more."""
    for op in overloads:  # `sort.values`, `svd.U`: the first result's name
        if op.out is None:
            continue
        if wanted in _RESULTS or op.returns[0][1] in wanted.split("_"):
            return op.out
    if "scalar" in wanted.lower() or wanted in ("Tensor", "Tensor_Tensor"):
        for op in overloads:
            if any(row[1] == _NUMBER_OR_TENSOR for row in op.signature.rows):
                return op
    return overloads[0] if wanted in _OPTIONAL else None


def _writing(overloads, wanted):
    """The ``out=`` form of an overload: ``out``, ``Scalar_out``, ``OutTensor``."""
    import re  # much to import for what few programs ask

    base = re.sub("_?out_?", "", wanted, flags=re.IGNORECASE)
    able = [op for op in overloads if op.out is not None]
    for op in able:
        if not base or f"_{_own(op)}".endswith(f"_{base}"):
            return op.out
    op = _wider(able, base) if able else None
    return None if op is None else op.out
