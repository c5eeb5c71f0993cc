"""Layers watched step by step: how large their activations and gradients are."""

import math
import statistics
from typing import NamedTuple

import rushlight
from rushlight.inspection._viewer import Panel, document

# A gradient is told to vanish below this part of the step's largest, and to explode above
# this many times what it was before.
VANISHING, EXPLODING = 1e-6, 100.0


class LayerFigures(NamedTuple):
    """A tensor of a layer in one step, in figures.

    Args:
        step: which step.
        kind: ``"activation"`` or ``"gradient"``.
        name: the module's path, or the parameter's name.
        rms: the root of the mean square of its elements.
        mean: their mean.
        largest: their largest size.
        zeros: the part of them that is zero.
        wrong: how many are infinite or no numbers; other figures leave them out.
        scale: of a gradient, the root of the mean square of the parameter; else None.
    """

    step: int
    kind: str
    name: str
    rms: float
    mean: float
    largest: float
    zeros: float
    wrong: int
    scale: float | None = None


def _figures(tensor):
    """The figures of `LayerFigures` that any tensor has."""
    flat = tensor.detach()
    flat = (flat.abs() if flat.is_complex() else flat).double().flatten()
    finite = flat.isfinite()
    wrong = flat.numel() - int(finite.sum())
    flat = flat[finite] if wrong else flat
    if not flat.numel():
        return math.nan, math.nan, math.nan, math.nan, wrong
    largest = float(flat.abs().max())
    zeros = float((flat == 0).double().mean())
    return _rms(flat), float(flat.mean()), largest, zeros, wrong


def _rms(tensor):
    return float(tensor.detach().abs().double().square().mean().sqrt())


class LayerWatch:
    """Watches what a model's layers give, and the gradients of its parameters.

    Args:
        model: a module.
        activations: whether what layers give is watched: of modules without modules
            inside, by their paths.
        gradients: whether gradients are, as they are accumulated.
        on_activation: called with a layer's path and each tensor that it gives.

    Attributes:
        records: a `LayerFigures` for each tensor, in the order in which they came.

    >>> import rushlight as rl
    >>> _ = rl.manual_seed(0)
    >>> model = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 1))
    >>> with LayerWatch(model) as watch:
    ...     model(rl.ones(3, 4)).sum().backward()
    >>> [record.name for record in watch.records if record.kind == "activation"]
    ['0', '1', '2']
    >>> watch.problems()
    []
    """

    def __init__(self, model, activations=True, gradients=True, on_activation=None):
        self.model, self.records, self.steps = model, [], 0
        self.activations, self.gradients = activations, gradients
        self.on_activation = on_activation
        self._handles: list = []
        self._seen: set = set()

    def __enter__(self):
        for name, module in self.model.named_modules():
            if self.activations and not any(True for _ in module.children()):
                handle = module.register_forward_hook(self._activation_hook(name))
                self._handles.append(handle)
        for name, parameter in self.model.named_parameters():
            if self.gradients and parameter.requires_grad:
                handle = parameter.register_post_accumulate_grad_hook(
                    self._gradient_hook(name)
                )
                self._handles.append(handle)
        return self

    def __exit__(self, *raised):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        return False

    def step(self):
        """Ends a step; what comes next belongs to the next one."""
        self.steps += 1

    def _activation_hook(self, name):
        def hook(module, args, result):
            found = result if isinstance(result, (list, tuple)) else [result]
            for one in found:
                if isinstance(one, rushlight.Tensor):
                    self._keep("activation", name, one)
                    if self.on_activation is not None:
                        self.on_activation(name, one)

        return hook

    def _gradient_hook(self, name):
        def hook(parameter):
            self._keep("gradient", name, parameter.grad, _rms(parameter))

        return hook

    def _keep(self, kind, name, tensor, scale=None):
        with rushlight.no_grad():
            figures = _figures(tensor)
        self.records.append(LayerFigures(self.steps, kind, name, *figures, scale))

    def problems(self):
        """What is wrong with layers, a sentence each.

        Values that are not finite; layers that give zeros alone; parameters without a
        gradient, with one of zeros, with one that vanishes beside the others of its
        step, or that is many times what it was in the steps before.
        """
        found = [
            f"{r.kind} of {r.name}: {r.wrong} elements are not finite in step {r.step}"
            for r in self.records
            if r.wrong
        ]
        found += [
            f"{r.kind} of {r.name} is zero in step {r.step}"
            for r in self.records
            if r.zeros == 1.0
        ]
        return list(dict.fromkeys(found + self._of_gradients()))

    def _of_gradients(self):
        gradients = [r for r in self.records if r.kind == "gradient"]
        largest: dict = {}
        for record in gradients:
            largest[record.step] = max(largest.get(record.step, 0.0), record.rms)
        found, earlier = [], {}
        for record in gradients:
            place = f"gradient of {record.name}"
            if 0 < record.rms < VANISHING * largest[record.step]:
                found.append(
                    f"{place} vanishes in step {record.step}: {record.rms:.3g} beside "
                    f"{largest[record.step]:.3g}"
                )
            before = earlier.setdefault(record.name, [])
            usual = statistics.median(before) if before else math.inf
            if record.rms > EXPLODING * usual > 0:
                found.append(
                    f"{place} explodes in step {record.step}: {record.rms:.3g} after "
                    f"{usual:.3g}"
                )
            before.append(record.rms)
        if self.gradients and gradients:
            met = {record.name for record in gradients}
            found += [
                f"{name} has no gradient"
                for name, parameter in self.model.named_parameters()
                if parameter.requires_grad and name not in met
            ]
        return found

    def write(self, writer):
        """Writes the figures as scalars, for TensorBoard.

        Args:
            writer: a `SummaryWriter`.
        """
        for record in self.records:
            tag = f"{record.kind}/{record.name}"
            writer.add_scalar(f"{tag}/rms", record.rms, record.step)
            writer.add_scalar(f"{tag}/zeros", record.zeros, record.step)

    def panel(self):
        """The part of a page that shows the layers, step by step."""
        rows = [[v if _is_shown(v) else None for v in r] for r in self.records]
        data = {"rows": rows, "problems": self.problems()}
        return Panel("Layers", _BODY, data, _PROGRAM, _STYLE)


def _is_shown(value):
    return not isinstance(value, float) or math.isfinite(value)


_STYLE = """
.layers .bar { background: #1565c0; height: .8em; }
.layers .wrong { color: #b3261e; font-weight: 600; }
.layers tr { cursor: pointer; }
"""
_BODY = """<div class="layers"><p>
<select id="layers-kind"><option>gradient</option><option>activation</option></select>
step <input id="layers-step" type="range" min="0" value="0"> <b id="layers-now"></b></p>
<div id="layers-problems"></div><table id="layers-table"></table>
<p id="layers-chosen"></p>
<svg id="layers-curve" viewBox="0 0 800 160" width="800" height="160"></svg></div>"""

# Bars and curves are logarithmic: a layer whose gradient vanishes is what one looks for.
_PROGRAM = """
const $ = name => root.querySelector("#layers-" + name);
const rows = data.rows, steps = Math.max(0, ...rows.map(row => row[0]));
const sizes = rows.map(row => row[3]).filter(v => v > 0);
const least = Math.log10(Math.min(...sizes, 1)), most = Math.log10(Math.max(...sizes, 1));
const part = v => v > 0 ? (Math.log10(v) - least) / Math.max(most - least, 1e-9) : 0;
const figure = v => v === null ? "" : v === 0 ? "0" : v.toPrecision(3);
for (const problem of data.problems) element($("problems"), "p", problem, "wrong");
$("step").max = steps; $("step").value = steps;
if (!rows.some(row => row[1] === "gradient")) $("kind").value = "activation";
function curve(kind, name) {
  const found = rows.filter(row => row[1] === kind && row[2] === name);
  const x = step => steps ? step / steps * 790 + 5 : 400;
  const points = found.map(row => `${x(row[0])},${155 - 150 * part(row[3])}`).join(" ");
  $("chosen").textContent = `${name}, over ${found.length} steps`;
  $("curve").replaceChildren();
  drawn($("curve"), "polyline", {points, fill: "none", stroke: "#1565c0"});
}
function show() {
  const kind = $("kind").value, step = Number($("step").value);
  $("now").textContent = step;
  $("table").replaceChildren();
  const head = element($("table"), "tr", "");
  for (const title of ["layer", "rms", "", "of weight", "mean", "largest", "zeros", "wrong"])
    element(head, "th", title);
  for (const row of rows.filter(row => row[0] === step && row[1] === kind)) {
    const line = element($("table"), "tr", "", row[7] ? "wrong" : "");
    element(line, "td", row[2]);
    element(line, "td", figure(row[3]), "number");
    const bar = element(element(line, "td", ""), "div", "", "bar");
    bar.style.width = (1 + 200 * part(row[3])) + "px";
    element(line, "td", row[8] ? figure(row[3] / row[8]) : "", "number");
    for (const place of [4, 5]) element(line, "td", figure(row[place]), "number");
    element(line, "td", row[6] === null ? "" : (100 * row[6]).toFixed(1) + " %", "number");
    element(line, "td", row[7], "number");
    line.onclick = () => curve(kind, row[2]);
  }
}
$("kind").onchange = $("step").oninput = show;
show();
"""


def layer_page(watch, path=None, title="Layers"):
    """A page of a model's layers: gradients and activations, step by step.

    Args:
        watch: a `LayerWatch`.
        path: the file to write, if any.
        title: what stands above.

    Returns:
        the page's text.

    >>> import rushlight as rl
    >>> with LayerWatch(rl.nn.Linear(2, 1)) as watch:
    ...     watch.model(rl.ones(1, 2)).sum().backward()
    >>> '"weight"' in layer_page(watch)
    True
    """
    return document(title, [watch.panel()], path)
