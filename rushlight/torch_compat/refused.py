"""Modules of PyTorch whose names are there to be imported, and refuse when they are called.

Libraries import them at their top, for ways that their programs here do not take.
"""

import importlib.util

from rushlight.torch_compat import names

# A module's path -> what is missing, and the names that PyTorch's module has.
MODULES = {
    "_higher_order_ops.inline_asm_elementwise": (
        "PTX of programs", "inline_asm_elementwise"
    ),
    "_inductor.ir": ("Inductor's language", "Pointwise TensorBox"),
    "_inductor.virtualized": ("Inductor's language", "V ops"),
    "ao.quantization.fx.lower_to_fbgemm": (
        "lowering of reference graphs; convert_fx gives integers", "lower_to_fbgemm"
    ),
    "ao.quantization.fx.qconfig_mapping_utils": (
        "changing configurations between prepare and convert",
        "_compare_prepare_convert_qconfig_mappings _generate_node_name_to_qconfig "
        "_is_qconfig_supported_by_dtype_configs _update_qconfig_for_fusion "
        "_update_qconfig_for_qat",
    ),
    "sparse._triton_ops_meta": ("kernels in Triton", "get_meta minimize update"),
}  # fmt: skip


class _Loader:
    """Fills a module with names that refuse."""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from rushlight._stubs import refusing

        path = module.__name__.removeprefix(names.THEIRS + ".")
        what, listed = MODULES[path]
        for name in listed.split():
            text = f"{module.__name__}.{name}: Rushlight has no {what}"
            function = refusing(
                module.__name__, name, _refuse(text), f"NotImplementedError: no {what}."
            )
            setattr(module, name, function)


def _refuse(text):
    def refuse():
        raise NotImplementedError(text)

    return refuse


def spec_of(fullname):
    """Where a module of refusing names is; None where there is no such module.

    >>> spec_of("torch._inductor.ir").name, spec_of("torch.nn")
    ('torch._inductor.ir', None)
    """
    if fullname.removeprefix(names.THEIRS + ".") not in MODULES:
        return None
    return importlib.util.spec_from_loader(fullname, _Loader(), is_package=True)
