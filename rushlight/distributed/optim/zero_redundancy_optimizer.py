"""``ZeroRedundancyOptimizer``: each rank keeps the state of its share of parameters."""

import copy
from itertools import chain

import rushlight as rl
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.object_collectives import all_gather_object
from rushlight.distributed.world import get_global_rank, world
from rushlight.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _ZeROJoinHook(JoinHook):
    def __init__(self, zero):
        self.zero = zero

    def main_hook(self):
        """Step this rank's share, and take the others'."""
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is divided among the ranks of a group.

    Each rank steps its share of the parameters, and sends them to all others. Shares have
    nearly the same number of elements.

    Args:
        params: the parameters, or groups of them; the same on all ranks.
        optimizer_class: the optimizer of the shares.
        process_group: the group; all processes without it.
        parameters_as_bucket_view: without effect: parameters keep their own memory.
        overlap_with_ddp: not available.
        defaults: arguments of ``optimizer_class``.

    Raises:
        ValueError: this process has joined no others.
        NotImplementedError: steps were to overlap with a backward.
    """

    def __init__(
        self,
        params,
        optimizer_class,
        process_group=None,
        parameters_as_bucket_view=False,
        overlap_with_ddp=False,
        **defaults,
    ):
        world.membership(process_group)
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: steps do not overlap with a backward yet\n"
                "  remedy: overlap_with_ddp=False"
            )
        self.process_group = process_group or world.default
        self.rank, self.world_size = (
            self.process_group.rank(),
            self.process_group.size(),
        )
        self.global_rank = get_global_rank(self.process_group, self.rank)
        self._whole_states, self._optimizer_class = None, optimizer_class
        self._defaults, self.optim = defaults, None
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self._divide()

    def _divide(self):
        """Give each rank its share, and make this one's optimizer."""
        sizes = [0] * self.world_size
        self._shares = [[] for _ in range(self.world_size)]  # rank -> groups of it
        for group in self.param_groups:
            chosen: list = [[] for _ in range(self.world_size)]
            for each in sorted(group["params"], key=lambda p: p.numel(), reverse=True):
                rank = sizes.index(min(sizes))
                chosen[rank].append(each)
                sizes[rank] += each.numel()
            for rank, params in enumerate(chosen):
                self._shares[rank].append({**group, "params": params})
        own = [dict(group) for group in self._shares[self.rank]]
        self.optim = self._optimizer_class(own, **self._defaults)
        self._copy_settings(self.optim.param_groups, self.param_groups)

    @staticmethod
    def _copy_settings(source, target):
        """Copy what groups have beside their parameters: a schedule may change it."""
        for one, other in zip(source, target):
            for key, value in one.items():
                if key != "params":
                    other[key] = value

    def add_param_group(self, param_group):
        """Add a group of parameters; shares are made anew, and keep their state.

        Args:
            param_group: a dict with ``params``, the same on all ranks.
        """
        super().add_param_group(param_group)
        if self.optim is None:
            return
        kept = self.optim.state
        self._divide()
        own = set(chain(*(group["params"] for group in self.optim.param_groups)))
        for parameter in own & set(kept):
            self.optim.state[parameter] = kept[parameter]

    def step(self, closure=None, **kwargs):
        """Step this rank's share, and take the others' parameters.

        Args:
            closure: computes the loss again, where the optimizer asks for it.
        """
        Join.notify_join_context(self)
        self._copy_settings(self.param_groups, self.optim.param_groups)
        loss = (
            self.optim.step(closure, **kwargs) if closure else self.optim.step(**kwargs)
        )
        self._copy_settings(self.optim.param_groups, self.param_groups)
        with rl.no_grad():
            for rank, groups in enumerate(self._shares):
                self._send(rank, [p for group in groups for p in group["params"]])
        self._whole_states = None
        return loss

    def join_hook(self, **kwargs):
        """What ranks without input do in a block of ``Join``: they step, too."""
        return _ZeROJoinHook(self)

    @property
    def join_device(self):
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self):
        """The group."""
        return self.process_group

    def _send(self, rank, parameters):
        """Bring one rank's parameters to all, those of one type at once."""
        kinds: dict = {}
        for each in parameters:
            kinds.setdefault(each.dtype, []).append(each)
        for several in kinds.values():
            flat = rl.cat([each.detach().reshape(-1) for each in several])
            self.process_group._broadcast(flat, rank)
            if rank != self.rank:
                parts = flat.split([each.numel() for each in several])
                for each, part in zip(several, parts):
                    each.copy_(part.view(each.shape))

    def _indices(self):
        """Parameter -> its number in a state dict."""
        every = chain(*(group["params"] for group in self.param_groups))
        return {parameter: index for index, parameter in enumerate(every)}

    def consolidate_state_dict(self, to=0):
        """Bring the state of all shares to one rank, which may then save it.

        Args:
            to: the rank, among all processes. All ranks call this.
        """
        indices = self._indices()
        own = {indices[p]: copy.copy(state) for p, state in self.optim.state.items()}
        every = [None] * self.world_size
        all_gather_object(every, own, self.process_group)
        if self.global_rank == to:
            self._whole_states = every

    def state_dict(self):
        """The state of all parameters, as one optimizer's.

        Raises:
            RuntimeError: it has not been brought to this rank.
        """
        if self._whole_states is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.global_rank})` on all ranks "
                "beforehand if you meant to save the global state."
            )
        self._copy_settings(self.optim.param_groups, self.param_groups)
        indices = self._indices()
        joined = {k: v for states in self._whole_states for k, v in states.items()}
        groups = [
            {**group, "params": [indices[p] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(joined.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Take the state of this rank's share out of a whole one.

        Args:
            state_dict: one optimizer's, or that of ``state_dict``.
        """
        indices = self._indices()
        own = self.optim.state_dict()
        parameters = list(
            chain(*(group["params"] for group in self.optim.param_groups))
        )
        states = state_dict["state"]
        own["state"] = {
            place: states[indices[parameter]]
            for place, parameter in enumerate(parameters)
            if indices[parameter] in states
        }
        self._copy_settings(state_dict["param_groups"], own["param_groups"])
        self.optim.load_state_dict(own)
        self._copy_settings(self.optim.param_groups, self.param_groups)
