"""Modules made of graphs, by the name that programs ask for them under."""

from contextlib import contextmanager

from rushlight.fx.graph_module import GraphModule


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    """A module of a graph; its code is written at once."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


def _get_graph_module_cls():
    return GraphModule


@contextmanager
def _use_lazy_graph_module(should_use):
    yield


@contextmanager
def _force_skip_lazy_graph_module():
    yield


class _LazyGraphModule(GraphModule):
    """A module of a graph; nothing about it waits."""

    @staticmethod
    def force_recompile(gm):
        """Writes code that has not been written: there is none such."""

    def real_recompile(self):
        """Writes code that has not been written: there is none such."""
