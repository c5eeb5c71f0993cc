"""Graphs drawn: as text for Graphviz, and as SVG without it."""

import hashlib
from typing import Any
from xml.sax.saxutils import escape

from rushlight.fx import _names
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import _format_arg
from rushlight.fx.passes.shape_prop import TensorMetadata

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "call_module": "LemonChiffon1",
    "get_param": "Yellow2",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
_HASHED = (
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1",
    "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2",
    "PeachPuff1", "Salmon", "Thistle1", "Thistle3", "Wheat1",
)  # fmt: skip
# What browsers call Graphviz' colours that they do not know.
_SVG_COLORS = {
    "lemonchiffon1": "lemonchiffon", "yellow2": "#eeee00", "cadetblue1": "#98f5ff",
    "darkolivegreen1": "#caff70", "darkseagreen1": "#c1ffc1", "khaki1": "#fff68f",
    "lavenderblush1": "#fff0f5", "mistyrose1": "#ffe4e1", "mistyrose2": "#eed5d2",
    "paleturquoise2": "#aeeeee", "peachpuff1": "#ffdab9", "thistle1": "#ffe1ff",
    "thistle3": "#cdb5cd", "wheat1": "#ffe7ba",
}  # fmt: skip
_WIDTH, _LINE, _GAP = 300, 15, 36


class _Drawing:
    """A graph as boxes and lines between them."""

    def __init__(self, name, rankdir="TB"):
        self.name, self.rankdir = name, rankdir
        self.boxes: dict[str, dict[str, Any]] = {}
        self.lines: list[tuple[str, str]] = []

    def to_string(self):
        """The text that Graphviz' ``dot`` reads."""
        rows = [f"digraph {_quoted(self.name)} {{", f"rankdir={self.rankdir};"]
        for name, box in self.boxes.items():
            given = {
                key: box[key] for key in ("fillcolor", "fontcolor", "shape", "style")
            }
            label = "{" + "|".join(_dot_text(part) for part in box["fields"]) + "}"
            facts = ", ".join(f"{key}={_quoted(v)}" for key, v in given.items())
            rows.append(f"{_quoted(name)} [label={_quoted(label)}, {facts}];")
        rows += [f"{_quoted(a)} -> {_quoted(b)};" for a, b in self.lines]
        return "\n".join([*rows, "}", ""])

    def create_svg(self):
        """The drawing as SVG, in bytes."""
        return self.to_svg().encode()

    def write_svg(self, path):
        """Writes the drawing as SVG."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_svg())

    def write(self, path, format="raw"):
        """Writes the drawing: as text for Graphviz, or ``format="svg"``."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_svg() if format == "svg" else self.to_string())

    def write_raw(self, path):
        """Writes the drawing as text for Graphviz."""
        self.write(path)

    def to_svg(self):
        """The drawing as SVG: layers from the top, lines between them."""
        positions, size = self._layout()
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" '
            f'height="{size[1]}" font-family="monospace" font-size="11">',
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" '
            'orient="auto"><path d="M0,0 L6,3 L0,6 z"/></marker></defs>',
        ]
        for first, second in self.lines:
            x1, y1, height = positions[first]
            x2, y2, _ = positions[second]
            x1, x2, y1 = x1 + _WIDTH // 2, x2 + _WIDTH // 2, y1 + height
            middle = (y1 + y2) // 2
            parts.append(
                f'<path d="M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}" '
                'fill="none" stroke="black" marker-end="url(#tip)"/>'
            )
        for name, box in self.boxes.items():
            parts += self._box(box, *positions[name])
        return "\n".join([*parts, "</svg>", ""])

    def _box(self, box, x, y, height):
        color = str(box["fillcolor"]).lower()
        yield (
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6" '
            f'fill="{_SVG_COLORS.get(color, color)}" stroke="black"/>'
        )
        for row, line in enumerate(_rows(box)):
            shown = line if len(line) <= 44 else line[:43] + "…"
            yield (
                f'<text x="{x + 8}" y="{y + (row + 1) * _LINE}">{escape(shown)}'
                f"<title>{escape(line)}</title></text>"
            )

    def _layout(self):
        """Where every box stands: a layer below all that it takes from."""
        inputs: dict[str, list[str]] = {name: [] for name in self.boxes}
        for first, second in self.lines:
            inputs[second].append(first)
        layers: dict[str, int] = {}
        for name in self.boxes:  # they come in order
            above = [layers[each] + 1 for each in inputs[name] if each in layers]
            layers[name] = max(above, default=0)
        rows: dict[int, list[str]] = {}
        for name, layer in layers.items():
            rows.setdefault(layer, []).append(name)
        positions, y = {}, 10
        widest = max((len(row) for row in rows.values()), default=1)
        total = widest * (_WIDTH + 20) + 20
        for layer in sorted(rows):
            names = rows[layer]
            x = (total - len(names) * (_WIDTH + 20)) // 2 + 10
            tallest = 0
            for name in names:
                height = len(_rows(self.boxes[name])) * _LINE + 8
                positions[name] = (x, y, height)
                tallest = max(tallest, height)
                x += _WIDTH + 20
            y += tallest + _GAP
        return positions, (total, y)


def _rows(box):
    return [line for part in box["fields"] for line in part.split("\n") if line]


def _quoted(text):
    escaped = str(text).replace('"', '\\"')
    return f'"{escaped}"'


def _dot_text(text):
    for mark in "{}<>|":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", "\\n")


class FxGraphDrawer:
    """Draws a module's graph, and those of the modules that it calls.

    Args:
        graph_module: the module.
        name: what the drawing is called.
        ignore_getattr: whether reads of paths are left out.
        ignore_parameters_and_buffers: whether those of parameters and buffers are.
        skip_node_names_in_args: whether arguments that are steps are not written out.
        parse_stack_trace: whether the program's lines are shown.
        dot_graph_shape: the shape of boxes for Graphviz.
        normalize_args: whether arguments are shown by name.

    >>> from rushlight import fx
    >>> drawer = FxGraphDrawer(fx.symbolic_trace(lambda x: x + 1), "f")
    >>> drawer.get_dot_graph().to_svg()[:4]
    '<svg'
    """

    def __init__(
        self, graph_module, name, ignore_getattr=False,
        ignore_parameters_and_buffers=False, skip_node_names_in_args=True,
        parse_stack_trace=False, dot_graph_shape=None, normalize_args=False,
    ):  # fmt: skip
        self._name = name
        self.shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self.skip_names = skip_node_names_in_args
        self.traces = parse_stack_trace
        self._dot_graphs = {
            name: self._draw(
                graph_module, name, ignore_getattr, ignore_parameters_and_buffers
            )
        }
        for inner_name, inner in graph_module.named_children():
            if isinstance(inner, GraphModule):
                path = f"{name}_{inner_name}"
                self._dot_graphs[path] = self._draw(
                    inner, path, ignore_getattr, ignore_parameters_and_buffers
                )

    def get_dot_graph(self, submod_name=None):
        """The drawing: ``to_string()`` for Graphviz, ``to_svg()`` without it."""
        return self.get_main_dot_graph() if submod_name is None else (
            self.get_submod_dot_graph(submod_name)
        )  # fmt: skip

    def get_main_dot_graph(self):
        """The drawing of the module itself."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name):
        """The drawing of a module that it calls."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self):
        """All drawings by name."""
        return self._dot_graphs

    def _draw(self, module, name, no_getattr, no_tensors):
        drawing = _Drawing(name)
        for node in module.graph.nodes:
            if no_getattr and node.op == "get_attr":
                continue
            drawing.boxes[node.name] = {
                "fields": self._fields(module, node),
                **self._get_node_style(node),
            }
            if node.op == "call_module" and not no_tensors:
                self._draw_tensors(drawing, module, node)
        for node in module.graph.nodes:
            for used in node.all_input_nodes:
                if used.name in drawing.boxes and node.name in drawing.boxes:
                    drawing.lines.append((used.name, node.name))
        return drawing

    def _get_node_style(self, node):
        """How the box of a step looks; subclasses change it."""
        return {
            "shape": self.shape,
            "style": "filled,rounded",
            "fillcolor": _color(node),
            "fontcolor": "#000000",
        }

    def _draw_tensors(self, drawing, module, node):
        called = module.get_submodule(node.target)
        named = [*called.named_parameters(), *called.named_buffers()]
        for name, tensor in named:
            path = f"{node.target}.{name}"
            drawing.boxes[path] = {
                "fields": [path, f"op_code: get_{type(tensor).__name__.lower()}",
                           _tensor_text(tensor)],
                "shape": self.shape,
                "style": "filled,rounded",
                "fillcolor": _COLORS["get_attr"],
                "fontcolor": "#000000",
            }  # fmt: skip
            drawing.lines.append((path, node.name))

    def _fields(self, module, node):
        fields = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            fields.append(_names.type_name(type(module.get_submodule(node.target))))
        else:
            fields.append(f"target={_names.target_name(node.target)}")
        args, kwargs = node.args, node.kwargs
        if self.normalize_args:
            found = node.normalized_arguments(module, normalize_to_only_use_kwargs=True)
            args, kwargs = (args, kwargs) if found is None else found
        shown = [_format_arg(a) for a in args if not (self.skip_names and _is_node(a))]
        if shown:
            fields.append(f"args=({', '.join(shown)})")
        if kwargs:
            fields.append(f"kwargs={_format_arg(kwargs)}")
        fields.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        if isinstance(meta, TensorMetadata):
            fields.append(_tensor_text(meta))
        elif "val" in node.meta and hasattr(node.meta["val"], "shape"):
            fields.append(_tensor_text(node.meta["val"]))
        if self.traces and node.stack_trace:
            fields.append(node.stack_trace.strip().split("\n")[-1].strip())
        return fields


def _is_node(arg):
    return hasattr(arg, "all_input_nodes")


def _tensor_text(tensor):
    stride = tensor.stride
    kind = _names.in_package(str(tensor.dtype))
    return (
        f"dtype={kind}\nshape={tuple(tensor.shape)}\n"
        f"requires_grad={tensor.requires_grad}\n"
        f"stride={stride() if callable(stride) else stride}"
    )


def _color(node):
    if node.op in _COLORS:
        return _COLORS[node.op]
    target = _names.target_name(node.target)
    digest = hashlib.md5(target.encode(), usedforsecurity=False).hexdigest()
    return _HASHED[int(digest[:8], 16) % len(_HASHED)]
