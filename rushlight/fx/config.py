"""Settings of graphs, under PyTorch's names; kept for programs that set them."""

disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
