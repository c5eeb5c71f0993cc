"""Functions of functions: gradients of every sample, ensembles, Jacobians, forward mode."""

import importlib

from benchmarks.harness import Case, Group


def prepared(library):
    """The library's modules for layers and for functions of functions; a fixed seed."""
    library.manual_seed(0)
    func = importlib.import_module(f"{library.__name__}.func")
    return library.nn, func


def every_sample(library):
    nn, func = prepared(library)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 6 * 6, 10),
    )
    values = {name: value.detach() for name, value in net.named_parameters()}
    x, y = library.randn(64, 1, 28, 28), library.randint(0, 10, (64,))

    def loss(values, x, y):
        scores = func.functional_call(net, values, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(scores, y.unsqueeze(0))

    gradients = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    return lambda: gradients(values, x, y)


def mlp(nn, *sizes, activation):
    layers = []
    for inner, outer in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(inner, outer), activation()]
    return nn.Sequential(*layers[:-1])


def ensemble(library):
    nn, func = prepared(library)
    models = [mlp(nn, 64, 128, 128, 10, activation=nn.ReLU) for _ in range(10)]
    parameters, buffers = func.stack_module_state(models)
    x = library.randn(64, 64)

    def call(parameters, buffers, x):
        return func.functional_call(models[0], (parameters, buffers), (x,))

    every = func.vmap(call, in_dims=(0, 0, None))
    return lambda: every(parameters, buffers, x)


def derivative(kind, scalar=False):
    def case(library):
        nn, func = prepared(library)
        net = mlp(nn, 32, 64, 32, activation=nn.Tanh)
        x = library.randn(32)
        function = (lambda x: net(x).sum()) if scalar else net
        transformed = getattr(func, kind)(function)
        return lambda: transformed(x)

    return case


def forward_mode(library):
    nn, func = prepared(library)
    width, heads = 64, 4
    norms = [nn.LayerNorm(width) for _ in range(2)]
    enter, leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
    wide, narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def block(x):
        batch, length, _ = x.shape
        parts = enter(norms[0](x)).view(batch, length, 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = library.softmax((q @ k.transpose(-1, -2)) * 0.25, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + leave(mixed)
        return x + narrow(nn.functional.gelu(wide(norms[1](x))))

    x, along = library.randn(4, 32, width), library.randn(4, 32, width)
    return lambda: func.jvp(block, (x,), (along,))


def tangent_kernel(library):
    nn, func = prepared(library)
    net = mlp(nn, 16, 32, 32, 1, activation=nn.Tanh)
    values = {name: value.detach() for name, value in net.named_parameters()}
    one, other = library.randn(16, 16), library.randn(16, 16)

    def call(values, x):
        return func.functional_call(net, values, (x.unsqueeze(0),)).squeeze(0)

    jacobian = func.vmap(func.jacrev(call), (None, 0))

    def kernel():
        first, second = jacobian(values, one), jacobian(values, other)
        return sum(
            library.einsum("Naf,Mbf->NMab", first[name].flatten(2), value.flatten(2))
            for name, value in second.items()
        )

    return kernel


def groups(quick):
    """The table's row for functions of functions."""
    return [
        Group(
            "functions of functions",
            0.7,
            [
                Case("gradients of every sample, convolutions", every_sample),
                Case("ensemble of ten MLPs", ensemble),
                Case("Jacobian of an MLP, reverse", derivative("jacrev")),
                Case("Jacobian of an MLP, forward", derivative("jacfwd")),
                Case("Hessian of an MLP", derivative("hessian", scalar=True)),
                Case("forward mode through a GPT block", forward_mode),
                Case("neural tangent kernel", tangent_kernel),
            ],
        )
    ]
