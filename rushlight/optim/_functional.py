"""Optimizers' rules as functions of lists: one step, with every number given.

Each takes the parameters, their gradients and what the optimizer keeps of each, changes
all but the gradients, and returns nothing. ``foreach``, ``fused`` and ``has_complex`` are
accepted: they choose among ways to compute the same.
"""

from typing import Any

# Of each function: what a state has under which name of a list, in the order of
# the arguments, then the options, as PyTorch's function takes them, with their defaults.
_MAY = {"foreach": None, "differentiable": False, "has_complex": False}
_CAN = _MAY | {"capturable": False}
_SCALED = {"fused": None, "grad_scale": None, "found_inf": None}
_ADAM = {
    "exp_avgs": "exp_avg",
    "exp_avg_sqs": "exp_avg_sq",
    "max_exp_avg_sqs": "max_exp_avg_sq",
    "state_steps": "step",
}
_MEANS = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq"}
_STEP = {"state_steps": "step"}
_BETAS = ("beta1", "beta2")
RULES: dict[str, tuple[dict, dict, tuple]] = {
    "adadelta": (
        {"square_avgs": "square_avg", "acc_deltas": "acc_delta"} | _STEP,
        {"capturable": False} | _MAY,
        ("lr", "rho", "eps", "weight_decay", "maximize"),
    ),
    "adagrad": (
        {"state_sums": "sum"} | _STEP,
        _SCALED | {"has_sparse_grad": False} | _MAY,
        ("lr", "weight_decay", "lr_decay", "eps", "maximize"),
    ),
    "adam": (
        _ADAM,
        {"foreach": None, "capturable": False, "differentiable": False}
        | _SCALED
        | {"has_complex": False, "decoupled_weight_decay": False},
        ("amsgrad", *_BETAS, "lr", "weight_decay", "eps", "maximize"),
    ),
    "adamw": (
        _ADAM,
        {"foreach": None, "capturable": False, "differentiable": False}
        | _SCALED
        | {"has_complex": False},
        ("amsgrad", *_BETAS, "lr", "weight_decay", "eps", "maximize"),
    ),
    "adamax": (
        {"exp_avgs": "exp_avg", "exp_infs": "exp_inf"} | _STEP,
        {"foreach": None, "maximize": False, "differentiable": False}
        | {"capturable": False, "has_complex": False},
        ("eps", *_BETAS, "lr", "weight_decay"),
    ),
    "asgd": (
        {"axs": "ax", "mus": "mu", "etas": "eta"} | _STEP,
        {"foreach": None, "maximize": False, "differentiable": False}
        | {"capturable": False, "has_complex": False},
        ("lambd", "lr", "t0", "alpha", "weight_decay"),
    ),
    "nadam": (
        _MEANS | {"mu_products": "mu_product"} | _STEP,
        {"decoupled_weight_decay": False, "foreach": None, "capturable": False}
        | {"differentiable": False, "has_complex": False, "maximize": False},
        (*_BETAS, "lr", "weight_decay", "momentum_decay", "eps"),
    ),
    "radam": (
        _MEANS | _STEP,
        {"decoupled_weight_decay": False, "foreach": None, "differentiable": False}
        | {"capturable": False, "has_complex": False, "maximize": False},
        (*_BETAS, "lr", "weight_decay", "eps"),
    ),
    "rmsprop": (
        {"square_avgs": "square_avg", "grad_avgs": "grad_avg"}
        | {"momentum_buffer_list": "momentum_buffer"}
        | _STEP,
        {"foreach": None, "maximize": False, "differentiable": False}
        | {"capturable": False, "has_complex": False},
        ("lr", "alpha", "eps", "weight_decay", "momentum", "centered"),
    ),
    "rprop": (
        {"prevs": "prev", "step_sizes": "step_size"} | _STEP,
        {"foreach": None, "capturable": False, "maximize": False}
        | {"differentiable": False, "has_complex": False},
        ("step_size_min", "step_size_max", "etaminus", "etaplus"),
    ),
    "sgd": (
        {"momentum_buffer_list": "momentum_buffer"},
        {"has_sparse_grad": False, "foreach": None} | _SCALED,
        ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize"),
    ),
}


def _group_of(options) -> dict[str, Any]:
    """The options as a group of parameters has them."""
    group = {"differentiable": False, "maximize": False} | options
    if "beta1" in group:
        group["betas"] = group.pop("beta1"), group.pop("beta2")
    if "etaminus" in group:
        group["etas"] = group.pop("etaminus"), group.pop("etaplus")
        group["step_sizes"] = group.pop("step_size_min"), group.pop("step_size_max")
    return group


def rule(cls):
    """The function of one class of optimizers, as PyTorch's module has it."""
    name = cls.__name__.lower()
    lists, may, must = RULES[name]

    def step(params, grads, *args, **options):
        names = [*lists, *may]
        if len(args) > len(names):
            raise TypeError(
                f"{name}() takes {2 + len(names)} positional arguments but "
                f"{2 + len(args)} were given"
            )
        given = dict(zip(names, args)) | options
        unknown = set(given) - {*names, *must}
        missing = [each for each in (*lists, *must) if each not in given]
        if unknown or missing:
            wrong = (
                f"got an unexpected keyword argument '{min(unknown)}'"
                if unknown
                else f"missing required arguments: {', '.join(missing)}"
            )
            raise TypeError(f"{name}() {wrong}")
        kept = {key: given.pop(each) for each, key in lists.items()}
        own = cls.__new__(cls)  # its rule alone is wanted, not what it would keep
        group = own.plain_group() | _group_of(may | given)
        for place, (parameter, grad) in enumerate(zip(params, grads)):
            state = {
                key: values[place]
                for key, values in kept.items()
                if place < len(values) and values[place] is not None
            }
            own.change(group, parameter, grad, state)
            for key, value in state.items():
                if place < len(kept[key]):
                    kept[key][place] = value

    step.__name__ = step.__qualname__ = name
    step.__module__ = cls.__module__
    step.__doc__ = f"One step of ``{cls.__name__}``: of lists, with every number given."
    return step
