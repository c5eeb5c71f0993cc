"""PyTorch's names of overloads lead to operators that take what those overloads take."""

import pytest

import rushlight as rl

aten = rl.ops.aten

FOUND = {
    "squeeze.dim": "squeeze.dim",
    "all.dims": "all.dims",
    "fill_.Scalar": "fill_.Scalar",
    "clamp_min.Tensor": "clamp_min.Tensor",
    "remainder.Scalar": "remainder.Scalar",
    "where.ScalarSelf": "where.ScalarSelf",
    "add.out": "add.Tensor_out",
    "add.Scalar_out": "add.Tensor_out",
    "sum.IntList_out": "sum.dim_IntList_out",
    "xlogy.OutScalar_Self": "xlogy.Scalar_Self_out",
    "div.out_mode": "div.Tensor_mode_out",
    "sort.values": "sort.out",
    "max.dim_max": "max.dim_max",
    "linalg_eigh.eigvals": "linalg_eigh.out",
    "rand.generator": "rand",
}


@pytest.mark.parametrize("theirs", FOUND)
def test_names_of_overloads_lead_to_what_takes_as_much(theirs):
    name, overload = theirs.split(".")
    found = getattr(getattr(aten, name), overload)
    assert found.full_name == FOUND[theirs]


def test_overloads_found_by_other_names_run():
    x = rl.arange(3.0).reshape(1, 3)
    assert aten.squeeze.dim(x, 0).shape == (3,)
    target = rl.empty(1, 3)
    assert aten.add.out(x, x, out=target) is target
    assert target.tolist() == [[0.0, 2.0, 4.0]]
    assert aten.all.dims(x, [0, 1]).item() is False


def test_an_overload_that_nobody_has_is_refused_by_name():
    with pytest.raises(AttributeError, match="'add' has no overload 'nonsense'"):
        assert aten.add.nonsense


def test_every_overload_of_a_functional_operator_here_is_found():
    torch = pytest.importorskip("torch")
    missing = []
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        overload = schema.overload_name
        # Of the interpreter's: numbers, strings and lists of them.
        tensors = all("Tensor" in str(r.type) for r in schema.returns)
        known = hasattr(aten, name) and "::" not in name and schema.returns
        if not known or not tensors or not overload or "Dimname" in str(schema):
            continue
        writes = any(a.alias_info and a.alias_info.is_write for a in schema.arguments)
        if writes or any(str(a.type) in ("t", "t[]") for a in schema.arguments):
            continue
        try:
            getattr(getattr(aten, name), overload)
        except AttributeError:
            missing.append(f"{name}.{overload}")
    prim = {"to.prim_Device", "to.prim_dtype", "to.prim_other"}
    prim |= {"mT.a", "mH.a", "numpy_T.a", "matrix_H.a"}  # attributes of its tensors
    prim |= {"copy.Dict_Tensor"}  # a dictionary of its
    varied = {"einsum.sublist"}  # takes any number of arguments: no schema of ours does
    assert set(missing) <= prim | varied
