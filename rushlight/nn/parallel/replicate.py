"""A module once for each device."""

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """Copies of a module whose parameters are computed from the module's own.

    Args:
        network: the module.
        devices: where the copies are; gradients go to the module's parameters.
        detach: whether they do not.

    Returns:
        A list of copies, one for each device. They have no parameters of their own.

    >>> import rushlight as rl
    >>> layer = rl.nn.Linear(2, 1)
    >>> first, second = replicate(layer, ["cpu", "cpu"])
    >>> first(rl.ones(1, 2)).sum().backward()
    >>> layer.weight.grad
    tensor([[1., 1.]])
    """
    modules = list(network.modules())
    copies = []
    for device in devices:
        tensors: dict = {}

        def on_device(tensor, device=device, tensors=tensors):
            key = id(tensor)
            if key not in tensors:
                made = tensor.to(device)
                made = made.view_as(made) if made is tensor else made
                tensors[key] = made.detach() if detach else made
            return tensors[key]

        twins = {each: each._replicate_for_data_parallel() for each in modules}
        for module, twin in twins.items():
            twin._former_parameters = {}
            for name, child in module._modules.items():
                twin._modules[name] = None if child is None else twins[child]
            for name, parameter in module._parameters.items():
                if parameter is None:
                    twin._parameters[name] = None
                    continue
                made = on_device(parameter)
                setattr(twin, name, made)
                twin._former_parameters[name] = made
            for name, buffer in module._buffers.items():
                twin._buffers[name] = None if buffer is None else on_device(buffer)
        copies.append(twins[network])
    return copies
