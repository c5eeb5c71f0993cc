"""Pictures of models and graphs, as pages that need nothing else.

``module_page`` shows the tree of a model's modules, ``graph_page`` what ``backward``
of a tensor goes through. Both return the page's text, and write it to a file if asked.
"""

from html import escape

import rushlight as rl
from rushlight.utils._summary import readable_bytes, summary

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; color: #1d2330;
       background: #fff; }
details { margin-left: 1.2em; border-left: 1px solid #d5dae3; padding-left: .7em; }
body > details { margin-left: 0; border: 0; padding: 0; }
summary { cursor: pointer; padding: .1em 0; }
summary.leaf { list-style: none; cursor: default; }
b { font-weight: 600; }
i { font-style: normal; color: #5b6577; }
code { background: #eef1f6; border-radius: 3px; padding: 0 .3em; }
svg text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: #1d2330; }
svg .small { font-size: 10px; fill: #5b6577; }
svg path { fill: none; stroke: #8a94a6; }
svg rect { stroke: #8a94a6; fill: #eef1f6; }
svg .leaf rect { fill: #dcefdc; stroke: #6ba36b; }
svg .root rect { fill: #fbe7cf; stroke: #c9924a; }
"""


def _page(title, body, path):
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def module_page(model, *inputs, path=None, **kwargs):
    """A page with the tree of a model's modules, which opens and closes.

    Args:
        model: a module.
        inputs, kwargs: the model's arguments, as for ``summary``; with them the page
            tells each module's output sizes and memory.
        path: a file to write the page to.

    Returns:
        The page's text.

    >>> page = module_page(rl.nn.Sequential(rl.nn.Linear(4, 3)), (2, 4))
    >>> "in_features=4" in page and "[2, 3]" in page
    True
    """
    return _page(type(model).__name__, module_tree(model, *inputs, **kwargs), path)


def module_tree(model, *inputs, times=None, **kwargs):
    """The tree of a model's modules, as HTML.

    Args:
        model: a module.
        inputs, kwargs: the model's arguments, as for ``summary``.
        times: the seconds that each module's calls took, if known.
    """
    table = summary(model, *inputs, **kwargs)
    # A module that is found again below has no row of its own.
    rows = {id(model.get_submodule(row.path)): row for row in table.rows}
    parts: list = []
    _write_tree(parts, type(model).__name__, model, rows, set(), times)
    facts = (
        f"<p>{table.parameters:,} parameters, {table.trainable:,} of them trained; "
        f"{readable_bytes(table.held_bytes)} with the buffers"
    )
    if table.input_bytes:
        facts += (
            f"; {readable_bytes(table.input_bytes)} of inputs, "
            f"{readable_bytes(table.made_bytes)} of results"
        )
    return f"{facts}.</p>\n" + "\n".join(parts)


def _write_tree(parts, name, module, rows, shown, times=None):
    row = rows[id(module)]
    again = id(module) in shown
    shown.add(id(module))
    children = (
        []
        if again
        else [
            (key, child) for key, child in module._modules.items() if child is not None
        ]
    )
    facts = []
    if row.parameters and not again:
        facts.append(f"{row.parameters:,} parameters")
    if row.shapes:
        shapes = " ".join(str(list(each)) for each in row.shapes)
        facts.append(f"<code>{shapes}</code> {readable_bytes(row.made_bytes)}")
    if row.calls > 1:
        facts.append(f"called {row.calls} times")
    if again:
        facts.append("shown above")
    elif times and module in times:
        facts.append(f"{1e3 * times[module]:.3f} ms")
    extra = module.extra_repr().replace("\n", " ")
    leaf = "" if children else ' class="leaf"'
    parts.append(
        f"<details open><summary{leaf}><b>{escape(name)}</b> {escape(row.kind)}"
        f"<i>({escape(extra)})</i> {', '.join(facts)}</summary>"
    )
    for key, child in children:
        _write_tree(parts, key, child, rows, shown, times)
    parts.append("</details>")


class Box:
    """A node of a graph and its place in the picture.

    Args:
        node: what it stands for.
        label, detail: its two lines.
        kind: ``"root"``, ``"node"`` or ``"leaf"``, which says how it is drawn.
    """

    def __init__(self, node, label, detail, kind):
        self.node = node
        self.label = label
        self.detail = detail
        self.kind = kind
        self.below: list = []
        self.level = 0
        self.x = 0.0
        self.width = 14 + 7 * max(len(label), 0.85 * len(detail))


def _boxes(root, names, limit):
    """The graph below a node, each box once, before those below it."""
    found: dict = {}
    order, stack = [], [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(found[node])
            continue
        if node in found:
            continue
        if len(found) >= limit:
            raise ValueError(
                f"graph_svg: the graph has more than {limit} nodes\n"
                "  remedy: draw an inner result, or raise limit"
            )
        found[node] = _boxed(node, names, node is root)
        stack.append((node, True))
        stack += [(each, False) for each, _ in node.next_functions if each is not None]
    for box in found.values():
        after = (each for each, _ in box.node.next_functions if each is not None)
        box.below = [found[each] for each in after]
    return order[::-1]


def _boxed(node, names, is_root):
    variable = getattr(node, "variable", None)
    if variable is None:
        return Box(
            node, node.name().rsplit("::", 1)[-1], "", "root" if is_root else "node"
        )
    label = names.get(id(variable), "leaf")
    return Box(node, label, str(list(variable.shape)), "leaf")


def _placed(boxes):
    """Boxes by level, each level from left to right; the levels below the longest way."""
    for box in boxes:  # every box comes before those below it
        for below in box.below:
            below.level = max(below.level, box.level + 1)
    levels: list = [[] for _ in range(1 + max(box.level for box in boxes))]
    for box in boxes:
        levels[box.level].append(box)
    above: dict = {id(box): [] for box in boxes}
    for box in boxes:
        for below in box.below:
            above[id(below)].append(box)
    for level in levels:
        wanted = {}
        for place, box in enumerate(level):
            parents = above[id(box)]
            middle = sum(each.x for each in parents) / len(parents) if parents else 0.0
            wanted[id(box)] = middle, place
        level.sort(key=lambda box: wanted[id(box)])
        total = sum(box.width for box in level) + 16 * (len(level) - 1)
        middle = sum(wanted[id(box)][0] for box in level) / len(level)
        edge = middle - total / 2
        for box in level:
            box.x = edge + box.width / 2
            edge += box.width + 16
    return levels


_STEP = 62  # from one level to the next
_HEIGHT = 30


def graph_svg(tensor, names=None, limit=2000):
    """The graph that ``backward`` of a tensor goes through, as an SVG picture.

    Args:
        tensor: a result that has a graph.
        names: the leaves' names: a dict of tensors, or a module for its parameters'.
        limit: the most nodes that are drawn.

    Returns:
        The picture's text.

    Raises:
        ValueError: the tensor has no graph, or one that is too large.

    >>> x = rl.ones(2, requires_grad=True)
    >>> picture = graph_svg((x * 2).sum(), {"x": x})
    >>> picture.count("<rect"), "SumBackward0" in picture
    (3, True)
    """
    if tensor.grad_fn is None:
        raise ValueError(
            "graph_svg: the tensor has no graph\n"
            "  remedy: compute it of tensors that require gradients"
        )
    if isinstance(names, rl.nn.Module):
        names = dict(names.named_parameters())
    names = {id(value): key for key, value in (names or {}).items()}
    return layered_svg(_boxes(tensor.grad_fn, names, limit))


def layered_svg(boxes):
    """Boxes of a graph without cycles in levels, as an SVG picture.

    Args:
        boxes: each before those below it.
    """
    levels = _placed(boxes)
    boxes = [box for level in levels for box in level]
    left = min(box.x - box.width / 2 for box in boxes) - 10
    right = max(box.x + box.width / 2 for box in boxes) + 10
    height = _STEP * (len(levels) - 1) + _HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right - left:.0f}" '
        f'height="{height}" viewBox="{left:.0f} -10 {right - left:.0f} {height}">'
    ]
    for box in boxes:
        start = _STEP * box.level + _HEIGHT
        for below in box.below:
            end = _STEP * below.level
            bend = (end - start) / 2
            parts.append(
                f'<path d="M{box.x:.1f} {start}C{box.x:.1f} {start + bend:.0f} '
                f'{below.x:.1f} {end - bend:.0f} {below.x:.1f} {end}"/>'
            )
    parts += map(_drawn, boxes)
    parts.append("</svg>")
    return "\n".join(parts)


def _drawn(box):
    top = _STEP * box.level
    lines = f'<text x="{box.x:.1f}" y="{top + 19}">{escape(box.label)}</text>'
    if box.detail:
        lines = (
            f'<text x="{box.x:.1f}" y="{top + 13}">{escape(box.label)}</text>'
            f'<text class="small" x="{box.x:.1f}" y="{top + 25}">'
            f"{escape(box.detail)}</text>"
        )
    return (
        f'<g class="{box.kind}"><rect x="{box.x - box.width / 2:.1f}" y="{top}" '
        f'width="{box.width:.1f}" height="{_HEIGHT}" rx="6"/>{lines}</g>'
    )


def graph_page(tensor, names=None, path=None, limit=2000):
    """A page with the graph that ``backward`` of a tensor goes through.

    Args:
        tensor: a result that has a graph.
        names: the leaves' names: a dict of tensors, or a module for its parameters'.
        path: a file to write the page to.
        limit: the most nodes that are drawn.

    Returns:
        The page's text.

    Raises:
        ValueError: the tensor has no graph, or one that is too large.
    """
    title = f"Graph of a tensor of sizes {list(tensor.shape)}"
    return _page(title, graph_svg(tensor, names, limit), path)
