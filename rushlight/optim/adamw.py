"""Adam with decoupled weight decay."""

from rushlight.optim._functional import rule
from rushlight.optim.adam import Adam

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """``Adam`` that shrinks the parameters instead of adding to their gradients.

    Arguments as in ``Adam``; ``weight_decay`` is 0.01 where it is left out.

    Args:
        params: tensors, or dicts that describe groups of them.
        lr: learning rate.
        betas, eps, amsgrad, foreach, maximize, capturable, differentiable, fused: as in
            ``Adam``.
        weight_decay: the share of a parameter, times ``lr``, that is taken off.

    >>> weight = rl.nn.Parameter(rl.ones(2))
    >>> optimizer = AdamW([weight], lr=0.1)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.detach()
    tensor([0.8990, 0.8990])
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True

    def plain_group(self):
        return super().plain_group() | {"decoupled_weight_decay": True}


adamw = rule(AdamW)
