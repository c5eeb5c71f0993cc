"""The viewer: one page that needs nothing else, with a panel for each thing it shows."""

import json
from html import escape
from typing import NamedTuple

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 0; color: #1d2330; }
h1 { font-size: 1.2em; margin: .5em .8em; display: inline-block; }
nav { display: inline-block; }
nav button.now { background: #dfe8fb; }
section.panel { border-top: 1px solid #d5dae3; padding: .6em 1em; }
section.hidden { display: none; }
code { background: #eef1f6; border-radius: 3px; padding: 0 .3em; }
table { border-collapse: collapse; margin: .6em 0; }
td, th { padding: .1em .8em; text-align: left; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg text { font: 11px system-ui, sans-serif; }
"""

# Functions that the panels' programs share, and the choice of a panel.
_PROGRAM = """
function element(parent, kind, text, name) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return parent.appendChild(made);
}
function drawn(parent, kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return parent.appendChild(made);
}
function readable(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = Math.abs(bytes), unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return (bytes < 0 ? "-" : "") + (unit ? n.toFixed(1) : n) + " " + units[unit];
}
const panels = [...document.querySelectorAll("section.panel")];
const buttons = [...document.querySelectorAll("nav button")];
function choosePanel(number) {
  panels.forEach((panel, n) => panel.classList.toggle("hidden", n !== number));
  buttons.forEach((button, n) => button.classList.toggle("now", n === number));
}
buttons.forEach((button, n) => { button.onclick = () => choosePanel(n); });
"""


class Panel(NamedTuple):
    """A part of a page.

    Args:
        title: what the button that chooses it says.
        body: its HTML.
        data: what its program is given, in types that JSON knows.
        program: JavaScript, the body of a function of ``root`` and ``data``.
        style: CSS.
    """

    title: str
    body: str
    data: object = None
    program: str = ""
    style: str = ""


def _json(value):
    """JSON that ends no element of a page, whatever its texts say."""
    text = json.dumps(value)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def document(title, panels, path=None):
    """A page of panels; where there are several, buttons choose one.

    Args:
        title: what stands above.
        panels: a list of `Panel`.
        path: a file to write the page to, if any.

    Returns:
        the page's text.

    >>> page = document("two", [Panel("a", "<p>1</p>"), Panel("b", "<p>2</p>")])
    >>> page.count("<button")
    2
    """
    styles = dict.fromkeys([_STYLE, *(panel.style for panel in panels)])
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{''.join(styles)}</style></head><body>\n",
        f"<h1>{escape(title)}</h1>\n",
    ]
    if len(panels) > 1:
        names = (f"<button>{escape(panel.title)}</button>" for panel in panels)
        parts.append(f"<nav>{' '.join(names)}</nav>\n")
    for panel in panels:
        parts.append(f'<section class="panel">{panel.body}</section>\n')
    for number, panel in enumerate(panels):
        parts.append(
            f'<script id="data{number}" type="application/json">'
            f"{_json(panel.data)}</script>\n"
        )
    parts.append(f"<script>{_PROGRAM}\n")
    for number, panel in enumerate(panels):
        parts.append(f"(function(root, data) {{{panel.program}}})(panels[{number}], ")
        parts.append(
            f'JSON.parse(document.getElementById("data{number}").textContent));\n'
        )
    parts.append("choosePanel(0);</script></body></html>\n")
    text = "".join(parts)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def inspection_page(*shown, path=None, title="Inspection"):
    """One page with several things to look at: runs, memory, layers, graphs.

    Args:
        shown: recorders whose blocks are over (`RunRecorder`, `MemoryRecorder`,
            `LayerWatch`), or what ``graph_panel``, ``fx_panel`` and ``module_panel`` give.
        path: a file to write the page to, if any.
        title: what stands above.

    Returns:
        the page's text.

    Raises:
        TypeError: something is none of these.

    >>> import rushlight as rl
    >>> from rushlight.inspection import MemoryRecorder, RunRecorder
    >>> with RunRecorder() as run, MemoryRecorder() as memory:
    ...     _ = rl.ones(2).exp()
    >>> page = inspection_page(run, memory)
    >>> "aten.exp.default" in page and "Memory" in page
    True
    """
    panels = []
    for one in shown:
        panel = one if isinstance(one, Panel) else getattr(one, "panel", lambda: None)()
        if panel is None:
            raise TypeError(
                f"inspection_page: {type(one).__name__} is neither a recorder nor a panel"
            )
        panels.append(panel)
    return document(title, panels, path)
