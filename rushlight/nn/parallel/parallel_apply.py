"""Modules called at once, each in a thread of its own."""

import threading

import rushlight as rl

__all__ = ["parallel_apply"]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Call each module with its input, in a thread of its own.

    Args:
        modules: the modules.
        inputs: a tuple of arguments for each, or its one argument.
        kwargs_tup: keyword arguments for each.
        devices: the device of each.

    Returns:
        The results, in order. The first exception is raised again.

    Raises:
        AssertionError: there are not as many of the one as of the other.

    >>> double, negative = rl.nn.Identity(), rl.nn.ReLU()
    >>> parallel_apply([double, negative], [rl.tensor(-1.0), rl.tensor(-1.0)])
    [tensor(-1.), tensor(0.)]
    """
    count = len(modules)
    for name, values in (
        ("inputs", inputs),
        ("kwargs_tup", kwargs_tup),
        ("devices", devices),
    ):
        if values is not None and len(values) != count:
            raise AssertionError(
                f"The number of modules {count} is not equal to the number of {name} "
                f"{len(values)}"
            )
    kwargs_tup = kwargs_tup or ({},) * count
    results: list = [None] * count
    faults: dict = {}
    recording = rl.is_grad_enabled()  # a new thread starts with its own setting

    def work(index):
        arguments = inputs[index]
        if not isinstance(arguments, (list, tuple)):
            arguments = (arguments,)
        try:
            with rl.set_grad_enabled(recording):
                results[index] = modules[index](*arguments, **kwargs_tup[index])
        except Exception as error:  # raised again where it is seen
            faults[index] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, count)]
    for thread in threads:
        thread.start()
    if count:
        work(0)
    for thread in threads:
        thread.join()
    if faults:
        raise faults[min(faults)]
    return results
