"""Which quantized module a sparse one becomes: there are no kernels for them here."""


def _refuse():
    raise NotImplementedError(
        "modules of weights that are sparse and quantized (ao.nn.sparse.quantized) are not "
        "there: PyTorch's need QNNPACK\n  remedy: squash_mask(), then quantize the dense model"
    )


def get_static_sparse_quantized_mapping():
    """Modules for models whose inputs have known scales.

    Raises:
        NotImplementedError: always.
    """
    _refuse()


def get_dynamic_sparse_quantized_mapping():
    """Modules for models whose inputs are quantized as they come.

    Raises:
        NotImplementedError: always.
    """
    _refuse()
