"""Looking into generated code while it runs."""

from rushlight.fx.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule):
    """Has a module's code stop in the debugger at its beginning, and gives the module."""

    def stopping(body):
        return ["import pdb; pdb.set_trace()\n", *body]

    with gm.graph.on_generate_code(
        make_transformer=lambda former: (
            lambda body: stopping(former(body) if former else body)
        )
    ):
        gm.recompile()
    return gm
