"""Steps over several tensors, one of whose storages was freed or made smaller before.

python -m tests.resized_steps

Optimizers' steps (parameters, gradients and state), ``_foreach_*``, clipping, LAPACK, Fourier
transforms, sparse products, compiled functions and ``out=`` are warmed; then one storage after
the other is resized to nothing, and to an element less than the tensor spans. The call is
refused, and runs again once the storage has its bytes back. What ran is printed, and what
reads none of the storage is listed below.
"""

from __future__ import annotations

import inspect
import warnings

import rushlight as rl

WARM = 4
OPTIMIZERS = (
    "Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "LBFGS", "NAdam",
    "RAdam", "RMSprop", "Rprop", "SGD",
)  # fmt: skip
# They are replaced, or only their sizes are asked for.
NOT_READ = {"LBFGS d", "LBFGS prev_flat_grad", "_foreach_copy", "_foreach_zero"}
LINALG = (
    "inv", "qr", "svd", "eigh", "eig", "cholesky", "lu_factor", "det", "slogdet", "pinv",
    "matrix_exp", "svdvals", "matrix_rank", "eigvals", "eigvalsh", "ldl_factor", "cond",
)  # fmt: skip


def optimizer_steps():
    """Each optimizer in each of its ways, with what its step reads."""
    for name in OPTIMIZERS:
        kind = getattr(rl.optim, name)
        known = inspect.signature(kind).parameters
        ways = [{}]
        ways += [{"foreach": way} for way in (False, True) if "foreach" in known]
        ways += [{"fused": True}] if "fused" in known else []
        for options in ways:
            if "momentum" in known:
                options["momentum"] = 0.9
            params = [rl.ones(3, 4).requires_grad_(), rl.ones(5).requires_grad_()]
            made = kind(params, lr=0.01, **options)
            for param in params:
                param.grad = rl.ones_like(param)

            def loss(params=params):
                return sum((param * param).sum() for param in params)

            def step(made=made, loss=loss, name=name):
                return made.step(loss) if name == "LBFGS" else made.step()

            for _ in range(WARM):
                step()
            state = made.state[params[0]]
            found = {
                f"{name} {k}": v for k, v in state.items() if isinstance(v, rl.Tensor)
            }
            read = {f"{name} parameter": params[0], f"{name} gradient": params[1].grad}
            yield step, read | found


def foreach_calls():
    """The calls of ``_foreach_*`` that are taken with lists and numbers of these kinds."""
    for name in sorted(n for n in dir(rl) if n.startswith("_foreach_")):
        function = getattr(rl, name)
        for count, numbers in ((1, ()), (2, ()), (3, ()), (1, (2.0,)), (2, (0.5,))):
            lists = [[rl.ones(3, 4), rl.ones(5)] for _ in range(count)]
            run = lambda f=function, a=(*lists, *numbers): f(*a)  # noqa: E731
            try:
                run()
            except (TypeError, RuntimeError):
                continue  # it wants other arguments
            yield run, {name: lists[0][0]}


def other_calls():
    """Libraries of linear algebra, transforms, sparse and compiled ones, ``out=``, clipping."""
    a, b, x = rl.eye(4) * 2, rl.ones(4, 2), rl.ones(16)
    for name in LINALG:
        yield (lambda name=name: getattr(rl.linalg, name)(a)), {name: a}
    yield (lambda: rl.linalg.solve(a, b)), {"solve A": a, "solve B": b}
    yield (lambda: rl.linalg.lstsq(a, b)), {"lstsq A": a, "lstsq B": b}
    yield (lambda: rl.linalg.solve_triangular(a, b, upper=True)), {"triangular": a}
    for name in ("fft", "ifft", "rfft", "hfft", "fftshift"):
        yield (lambda name=name: getattr(rl.fft, name)(x)), {name: x}
    window = rl.ones(4)
    yield (
        (lambda: rl.stft(x, 4, return_complex=True, window=window)),
        {"stft": x, "stft window": window},
    )
    compiled = rl.compile(lambda m, n: (m @ n).sin().sum())
    yield (lambda: compiled(a, b)), {"compiled first": a, "compiled second": b}
    sparse, rows = rl.eye(4).to_sparse(), rl.eye(4).to_sparse_csr()
    parts = {"indices": sparse._indices(), "values": sparse._values()}
    yield (lambda: rl.sparse.mm(sparse, b)), parts | {"sparse mm": b}
    parts = {"columns": rows.col_indices(), "rows": rows.crow_indices()}
    yield (lambda: rows @ b), parts | {"csr": rows.values(), "csr other": b}
    square, flat = rl.zeros(4, 4), rl.zeros(16, dtype=rl.complex64)
    yield (lambda: rl.mm(a, a, out=square)), {"mm": a, "mm out": square}
    yield (lambda: rl.add(a, 1, out=square)), {"add": a, "add out": square}
    yield (lambda: rl.linalg.inv(a, out=square)), {"inv out": square}
    yield (lambda: rl.fft.fft(x, out=flat)), {"fft out": flat}
    clip = rl.nn.utils
    for name, function in (
        ("clip_grad_norm_", lambda p: clip.clip_grad_norm_([p], 1.0)),
        (
            "clip_grad_norm_ each",
            lambda p: clip.clip_grad_norm_([p], 1.0, foreach=False),
        ),
        ("clip_grad_value_", lambda p: clip.clip_grad_value_([p], 0.5)),
        ("get_total_norm", lambda p: clip.get_total_norm([p.grad])),
        ("parameters_to_vector", lambda p: clip.parameters_to_vector([p.grad])),
    ):
        param = rl.nn.Parameter(rl.ones(3, 4))
        param.grad = rl.ones(3, 4)
        yield (lambda f=function, p=param: f(p)), {name: param.grad}


def resized(run, tensor, size):
    """The class of a call's exception, or None, while a storage has another size."""
    storage = tensor.untyped_storage()
    before, full = bytes(storage), storage.nbytes()
    storage.resize_(size)
    try:
        run()
    except Exception as error:
        return type(error).__name__
    finally:
        storage.resize_(full)
        view = rl.empty(0, dtype=rl.uint8).set_(storage, 0, (full,), (1,))
        view.copy_(rl.frombuffer(bytearray(before), dtype=rl.uint8))
    return None


def main():
    warnings.simplefilter("ignore")
    count = 0
    for source in (optimizer_steps, foreach_calls, other_calls):
        for run, tensors in source():
            for _ in range(WARM):
                run()
            for name, tensor in tensors.items():
                full = tensor.untyped_storage().nbytes()
                for size in {0, full - tensor.element_size()}:
                    count += 1
                    refusal = resized(run, tensor, size)
                    wanted = (
                        (None, "RuntimeError")
                        if name in NOT_READ
                        else ("RuntimeError",)
                    )
                    if refusal not in wanted:
                        print(
                            f"{name}: {refusal} with {size} of {full} bytes", flush=True
                        )
            run()
    print(f"{count} swept")


if __name__ == "__main__":
    main()
