"""Operators at which a model's images stop having their channels last."""

import importlib
import os
from dataclasses import dataclass

import rushlight
from rushlight.inspection._recording import ModuleNames, tensors_in, users_line


@dataclass(frozen=True)
class FormatLoss:
    """A call that was given images with channels last, and gave them row by row.

    Args:
        operator: its overload, such as ``aten.add.Tensor``.
        module: the module that was running, by its name from the root on, or ``""``.
        source: the user's line, ``file:line: text``, or ``""``.
        backward: whether a backward pass was going on.
        given: the sizes of the images with channels last.
        made: the sizes of the result.
        others: which other operands lay row by row.
    """

    operator: str
    module: str
    source: str
    backward: bool
    given: tuple
    made: tuple
    others: int = 0

    def __str__(self):
        place = ", ".join(each for each in (self.module, self.source) if each)
        way = " in the backward pass" if self.backward else ""
        besides = f", beside {self.others} row by row" if self.others else ""
        return (
            f"{self.operator}{way}: {_sized(self.given)} with channels last{besides}, "
            f"result {_sized(self.made)} row by row" + (f" ({place})" if place else "")
        )


def _sized(sizes):
    return "x".join(map(str, sizes))


class Watching:
    """What `format_watch_class` gives a library's mode: its class has ``library``."""

    library, folders = None, ()

    def __init__(self):
        super().__init__()
        self.losses = []
        self._modules = ModuleNames(self.library)
        last, last_3d = self.library.channels_last, self.library.channels_last_3d
        self._formats = {4: last, 5: last_3d}

    def __enter__(self):
        self._modules.start()
        return super().__enter__()

    def __exit__(self, *raised):
        self._modules.stop()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = tensors_in(self.library, (args, kwargs or {}))
        given = [each for each in map(self._images, tensors) if each]
        result = func(*args, **(kwargs or {}))
        last = [sizes for sizes, is_last in given if is_last]
        if last:
            self._look(func, last[0], len(given) - len(last), result)
        return result

    def _images(self, tensor):
        """Sizes, and whether channels are last; None where that cannot be told."""
        form = self._formats.get(tensor.dim())
        if form is None or tensor.layout != self.library.strided:
            return None
        by_rows = tensor.is_contiguous()
        is_last = tensor.is_contiguous(memory_format=form)
        return None if by_rows == is_last else (tuple(tensor.shape), is_last)

    def _look(self, func, given, others, result):
        backward = self.library._C._current_graph_task_id() != -1
        for made in map(self._images, tensors_in(self.library, result)):
            if made and not made[1]:
                place = self._modules.current, users_line(self.folders)
                self.losses.append(
                    FormatLoss(str(func), *place, backward, given, made[0], others)
                )


def format_watch_class(library):
    """The class whose blocks watch operators of a library with PyTorch's interface.

    Args:
        library: the module.
    """
    mode = importlib.import_module(f"{library.__name__}.utils._python_dispatch")

    class FormatWatch(Watching, mode.TorchDispatchMode):
        """Lists, for its block, the operators at which images lose channels last.

        Attributes:
            losses: a `FormatLoss` for each call, in order.

        >>> import rushlight as rl
        >>> x = rl.ones(1, 3, 4, 4).contiguous(memory_format=rl.channels_last)
        >>> with FormatWatch() as watch:
        ...     y = x.relu().contiguous()
        >>> watch.losses[0].operator, watch.losses[0].given
        ('aten.clone.default', (1, 3, 4, 4))
        """

        folders = (
            os.path.dirname(os.path.abspath(library.__file__)) + os.sep,
            os.path.abspath(__file__),
        )

    FormatWatch.library = library
    FormatWatch.__module__ = f"{library.__name__}.inspection"
    return FormatWatch


FormatWatch = format_watch_class(rushlight)


def find_format_losses(function, *arguments):
    """Runs a function, and lists the operators at which images lose channels last.

    Args:
        function: what to run, such as a model; gradients of it are taken in it.
        arguments: what it is given; images with channels last.

    Returns:
        a list of `FormatLoss`, empty where the format is kept throughout.

    >>> import rushlight as rl
    >>> x = rl.ones(1, 3, 4, 4).contiguous(memory_format=rl.channels_last)
    >>> net = rl.nn.Sequential(rl.nn.Conv2d(3, 4, 1), rl.nn.BatchNorm2d(4), rl.nn.ReLU())
    >>> find_format_losses(net.to(memory_format=rl.channels_last), x)
    []
    """
    with FormatWatch() as watch:
        function(*arguments)
    return watch.losses
