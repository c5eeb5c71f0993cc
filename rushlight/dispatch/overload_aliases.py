"""PyTorch's overloads that are here forms or wider overloads of other names."""

from __future__ import annotations

# What the name does not tell, by the operator's and the overload's name.
_WIDER = {
    "squeeze": {"dim": "dims"},
    "squeeze_": {"dim": "dims"},
    "squeeze_copy": {"dim": "dims"},
    "all": {"dims": "dim"},
    "any": {"dims": "dim"},
    "norm": {"ScalarOpt_dtype": "Scalar", "ScalarOpt_dim_dtype": "ScalarOpt_dim"},
    "max": {"dim_max": "dim"},
    "min": {"dim_min": "dim"},
    "dequantize": {"tensor": "self", "list": "tensors"},
    "randint_like": {"low_generator_dtype": "low_dtype"},
    "empty": {"memory_format": "default"},
    "bernoulli": {"Tensor": "default"},
    "count_nonzero": {"dim_IntList": "default"},
    "meshgrid": {"indexing": "default"},
    "float_power": {"Scalar": "Tensor_Tensor", "Tensor_Scalar": "Tensor_Tensor"},
}
# Arguments that PyTorch has in overloads of their own are optional here.
_OPTIONAL = frozenset(
    "input int dim dim_dtype dtype vec hacked_twin Tensor_hacked_twin IntList Tensor "
    "generator low_generator Tensor_generator generator_with_names center periodic "
    "periodic_alpha beta periodic_alpha_beta".split()
)
# What `out=` is called where the results have no names of their own.
_RESULTS = frozenset("grad_input output result eigvals".split())
_NUMBER_OR_TENSOR = 4  # the kind of argument that takes both


def covering(name, overloads, wanted):
    """The operator that does what the overload called ``wanted`` does in PyTorch.

    Args:
        name: the operator's name.
        overloads: the operators of that name.
        wanted: PyTorch's name of an overload that none of them has.

    Returns:
        An operator, or None.
    """
    if "out" in wanted.lower() and wanted != "output":
        return _writing(name, overloads, wanted)
    return _wider(name, overloads, wanted)


def _own(op):
    return op.full_name.partition(".")[2] or "default"


def _wider(name, overloads, wanted):
    """An overload that takes what the wanted one takes, and more."""
    wider = _WIDER.get(name, {}).get(wanted)
    if wider is not None:
        op = next((op for op in overloads if _own(op) == wider), None)
        return op.out if op is not None and wanted in ("dim_max", "dim_min") else op
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


def _writing(name, overloads, wanted):
    """The ``out=`` form of an overload: ``out``, ``Scalar_out``, ``OutTensor``."""
    import re  # much to import for what few programs ask

    base = re.sub("_?out_?", "", wanted, flags=re.IGNORECASE)
    able = [op for op in overloads if op.out is not None]
    for op in able:
        if not base or f"_{_own(op)}".endswith(f"_{base}"):
            return op.out
    op = _wider(name, able, base) if able else None
    return None if op is None else op.out
