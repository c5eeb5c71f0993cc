"""Tensors of every layout, the same in both frameworks."""

from hypothesis import strategies as st

SIZES = st.lists(st.integers(0, 4), min_size=0, max_size=4)
LAYOUTS = st.sampled_from(["plain", "turned", "spaced", "expanded", "channels last"])


def laid_out(framework, sizes, layout, dtype="float32"):
    """A tensor of these sizes, its elements counted up, in a layout."""
    kind = getattr(framework, dtype)
    if layout == "channels last" and len(sizes) != 4:
        layout = "turned"
    if layout == "turned" and len(sizes) > 1:
        return counted(framework, sizes[::-1], kind).permute(*range(len(sizes))[::-1])
    if layout == "spaced" and sizes:
        return counted(framework, [*sizes[:-1], 2 * sizes[-1]], kind)[..., ::2]
    if layout == "expanded" and sizes:
        return counted(framework, [1, *sizes[1:]], kind).expand(*sizes)
    if layout == "channels last":
        n, c, h, w = sizes
        return counted(framework, [n, h, w, c], kind).permute(0, 3, 1, 2)
    return counted(framework, sizes, kind)


def counted(framework, sizes, dtype):
    """0, 1, 2 ... in row-major order."""
    total = 1
    for size in sizes:
        total *= size
    return framework.arange(total).reshape(tuple(sizes)).to(dtype)
