"""Averages of a model's parameters over its training."""

import math
from copy import deepcopy
from itertools import chain

import rushlight as rl
from rushlight.nn.modules.batchnorm import _BatchNorm
from rushlight.nn.modules.module import Module
from rushlight.optim._schedule import LRScheduler, per_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] "
            "range."
        )


def _can_blend(tensors):
    return tensors[0].is_floating_point() or tensors[0].is_complex()


def get_ema_multi_avg_fn(decay=0.999):
    """A function ``(averages, values, count)`` that keeps exponential averages.

    Args:
        decay: the share of the average that each update keeps.

    Raises:
        ValueError: the decay is not between 0 and 1.

    >>> average = rl.zeros(1)
    >>> get_ema_multi_avg_fn(0.9)([average], [rl.ones(1)], 1)
    >>> average
    tensor([0.1000])
    """
    _check_decay(decay)

    @rl.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        blend = _can_blend(ema_param_list)
        for average, value in zip(ema_param_list, current_param_list, strict=True):
            if blend:
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """A function ``(averages, values, count)`` that keeps plain averages."""

    @rl.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        blend = _can_blend(averaged_param_list)
        count = num_averaged + 1
        if blend:
            share = 1 / count
            share = share.item() if isinstance(share, rl.Tensor) else share
        for average, value in zip(averaged_param_list, current_param_list):
            if blend:
                average.lerp_(value, share)
            elif isinstance(num_averaged, rl.Tensor):
                average.addcdiv_(value - average, count)
            else:
                average.add_(value - average, alpha=1.0 / count)

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """A function ``(average, value, count)`` whose result is the exponential average.

    Args:
        decay: the share of the average that each update keeps.

    Raises:
        ValueError: the decay is not between 0 and 1.

    >>> average = get_ema_avg_fn(0.5)
    >>> average(rl.tensor(1.0), rl.tensor(3.0), 1)
    tensor(2.)
    """
    _check_decay(decay)

    @rl.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """A function ``(average, value, count)`` whose result is the plain average."""

    @rl.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over ``update_parameters`` calls.

    Args:
        model: the model; it is copied.
        device: where the copy lives.
        avg_fn: ``(average, value, count)`` whose result is the new average.
        multi_avg_fn: ``(averages, values, count)`` that changes the averages, lists of
            tensors of one dtype and device.
        use_buffers: whether buffers are averaged; otherwise they are copied.

    Without a function the averages are plain ones.

    Raises:
        AssertionError: both functions are given.

    >>> model = rl.nn.Linear(1, 1, bias=False)
    >>> _ = rl.nn.init.constant_(model.weight, 1.0)
    >>> averaged = AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> _ = rl.nn.init.constant_(model.weight, 3.0)
    >>> averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    def __init__(
        self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False
    ):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(
                "Only one of avg_fn and multi_avg_fn should be provided"
            )
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", rl.tensor(0, dtype=rl.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Take a model's parameters into the averages.

        Args:
            model: of the kind that this one is a copy of.
        """
        averages, values = self._pairs(model)
        if self.n_averaged == 0:
            for average, value in zip(averages, values):
                average.copy_(value)
        elif self.multi_avg_fn is not None:
            self._update_lists(averages, values)
        else:
            update = self.avg_fn or get_swa_avg_fn()
            for average, value in zip(averages, values):
                count = self.n_averaged.to(average.device)
                average.copy_(update(average, value, count))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1

    def _pairs(self, model):
        """The averages and the model's values, without their gradients."""
        if self.use_buffers:
            own = chain(self.module.parameters(), self.module.buffers())
            others = chain(model.parameters(), model.buffers())
        else:
            own, others = self.parameters(), model.parameters()
        averages, values = [], []
        for average, value in zip(own, others):
            averages.append(average.detach())
            values.append(value.detach().to(average.device))
        return averages, values

    def _update_lists(self, averages, values):
        """Let the function see all tensors of one device and dtype at once."""
        lists: dict = {}
        for average, value in zip(averages, values):
            kind = average.device, average.dtype
            own, others = lists.setdefault(kind, ([], []))
            own.append(average)
            others.append(value)
        for (device, _), (own, others) in lists.items():
            self.multi_avg_fn(own, others, self.n_averaged.to(device))


@rl.no_grad()
def update_bn(loader, model, device=None):
    """Compute the running statistics of a model's batch norms anew.

    Args:
        loader: gives batches; of a list or tuple the first element is the input.
        model: is called with each input; without batch norms nothing is done.
        device: where the inputs are moved.

    >>> model = rl.nn.BatchNorm1d(1)
    >>> update_bn([rl.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta = {
        each: each.momentum for each in model.modules() if isinstance(each, _BatchNorm)
    }
    if not momenta:
        return
    was_training = model.training
    model.train()
    for norm in momenta:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over all batches
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals each group's learning rate to a fixed value, and stays there.

    Args:
        optimizer: whose rates are set.
        swa_lr: the value, or one for each group.
        anneal_epochs: how many steps it takes.
        anneal_strategy: the way there, ``"cos"`` or ``"linear"``.
        last_epoch: the step to continue after.

    Raises:
        ValueError: the strategy is unknown, or the number of steps negative.
    """

    def __init__(
        self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1
    ):
        rates = per_group("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t):
        return t

    @staticmethod
    def _cosine_anneal(t):
        return (1 - math.cos(math.pi * t)) / 2

    def _set_anneal_func(self, strategy):
        self._anneal_strategy = strategy
        self.anneal_func = (
            self._cosine_anneal if strategy == "cos" else self._linear_anneal
        )

    def _share(self, step):
        """How much of the way is behind after a number of steps."""
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self):
        """The next learning rate of each group."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            rate, goal = group["lr"], group["swa_lr"]
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

    def state_dict(self):
        """All fields but the optimizer and the annealing function."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict):
        """Take over what ``state_dict`` returned."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)
