"""Scales moved between layers, of which quantizers of graphs ask before they convert.

PyTorch's observers that ask for it are not there: `prepare_fx` refuses such configurations.
"""

__all__: list[str] = []


def update_obs_for_equalization(model, modules):
    """The observers of weights whose scales change, by node: none.

    Args:
        model: the observed graph's module.
        modules: its modules by name.
    """
    return {}


def convert_eq_obs(model, modules, weight_eq_obs_dict):
    """Changes scales by such observers: there are none to change.

    Args:
        model, modules: as for `update_obs_for_equalization`.
        weight_eq_obs_dict: what it gave.
    """
