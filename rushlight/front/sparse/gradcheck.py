"""Gradient checks for functions of sparse tensors."""

import functools

from rushlight.autograd._gradcheck_sparse import is_sparse, on_dense_inputs


def as_sparse_gradcheck(gradcheck):
    """A gradient check that sparse tensors can be given to.

    Sparse results are compared dense.

    Args:
        gradcheck: the check for dense tensors. ``masked=True`` varies the values of
            sparse inputs, ``masked=False`` all their elements, which are all written down then.

    >>> check = rl.sparse.as_sparse_gradcheck(rl.autograd.gradcheck)
    >>> eye = rl.eye(2, dtype=rl.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x * 2, (eye,))
    True
    """

    @functools.wraps(gradcheck)
    def check(func, inputs, **kwargs):
        masked = bool(kwargs.pop("masked", False))
        listed = inputs if isinstance(inputs, (tuple, list)) else (inputs,)

        def dense(*given):
            results = func(*given)
            if isinstance(results, (tuple, list)):
                return tuple(_dense(each, masked) for each in results)
            return _dense(results, masked)

        on_dense, taken = on_dense_inputs(dense, listed, masked, whole=True)
        return gradcheck(on_dense, taken, **kwargs)

    return check


def _dense(value, masked):
    if not is_sparse(value):
        return value
    return value.to_dense(masked_grad=masked)
