"""A recorded run as one page that needs nothing else: step through it, values included."""

import math

from rushlight.inspection._viewer import Panel, document

_STYLE = """
.run input[type=range] { width: 100%; }
.run main { display: flex; height: calc(100vh - 11em); }
.run ul { width: 24em; overflow: auto; border-right: 1px solid #d5dae3; margin: 0;
        padding: 0; list-style: none; }
.run li { padding: .1em .8em; cursor: pointer; white-space: nowrap; }
.run li.now { background: #dfe8fb; }
.run li.backward { color: #7a4a9a; }
.run li.wrong { color: #b3261e; font-weight: 600; }
#call { flex: 1; overflow: auto; padding: .4em 1.4em; }
.values { display: flex; flex-wrap: wrap; width: 40em; margin: .3em 0 1em; }
.values i { width: 1.2em; height: 1.2em; }
"""

# The page's program. A step's values are coloured by where they lie between the least and
# the largest; what is no number is black.
_PROGRAM = """
const run = data;
const list = document.getElementById("list"), call = document.getElementById("call");
const slider = document.getElementById("at"), find = document.getElementById("find");
let now = 0;
const isWrong = t => t.nan + t.inf > 0;
const madeWrong = r => r.outputs.some(isWrong) && !r.inputs.some(isWrong);
const rows = run.map((record, number) => {
  const row = document.createElement("li");
  row.textContent = number + " " + record.name;
  row.className = (record.backward ? "backward " : "") + (madeWrong(record) ? "wrong" : "");
  row.onclick = () => show(number);
  return list.appendChild(row);
});
function color(value, least, most) {
  if (value === null) return "#000";
  const part = most > least ? (value - least) / (most - least) : 0.5;
  return `hsl(${240 - 240 * part}, 70%, ${45 + 20 * Math.abs(part - 0.5)}%)`;
}
function tensor(parent, title, t) {
  const line = element(parent, "p", title + " ");
  element(line, "code", t.text);
  const grid = element(parent, "div", "");
  grid.className = "values";
  const numbers = t.values.filter(v => v !== null);
  const least = Math.min(...numbers), most = Math.max(...numbers);
  t.values.forEach((value, place) => {
    const cell = element(grid, "i", "");
    cell.style.background = color(value, least, most);
    cell.title = `${place * t.step}: ${t.shown[place]}`;
  });
}
function show(number) {
  rows[now].classList.remove("now");
  now = Math.max(0, Math.min(run.length - 1, number));
  const record = run[now];
  rows[now].classList.add("now");
  rows[now].scrollIntoView({block: "nearest"});
  slider.value = now;
  document.getElementById("place").textContent = `${now + 1} of ${run.length}`;
  call.replaceChildren();
  element(call, "h2", record.name + (record.backward ? " (backward)" : ""));
  if (record.module) element(element(call, "p", "module "), "code", record.module);
  if (record.source) element(element(call, "p", "line "), "code", record.source);
  record.inputs.forEach((t, n) => tensor(call, "input " + n, t));
  record.outputs.forEach((t, n) => tensor(call, "result " + n, t));
}
function seek(step, wanted) {
  for (let n = now + step; n >= 0 && n < run.length; n += step)
    if (wanted(run[n], n)) return show(n);
}
const shown = (record, n) => rows[n].style.display !== "none";
document.getElementById("back").onclick = () => seek(-1, shown);
document.getElementById("next").onclick = () => seek(1, shown);
document.getElementById("wrong").onclick = () => seek(1, madeWrong);
slider.oninput = () => show(Number(slider.value));
find.oninput = () => run.forEach((record, n) => {
  const text = `${record.name} ${record.module} ${record.source}`;
  rows[n].style.display = text.includes(find.value) ? "" : "none";
});
document.onkeydown = event => {
  if (event.target === find) return;
  if (event.key === "ArrowLeft") seek(-1, shown);
  if (event.key === "ArrowRight") seek(1, shown);
};
if (run.length) show(0);
"""


def run_page(run, path=None, title="A recorded run"):
    """A page that steps through a recorded run, backwards and forwards.

    Each operator has its module, the line of Python that called it, and for each of its
    tensors the form, a summary and up to 256 of the values as a picture. Arrow keys, the
    slider and the list move; a text chooses operators, modules or lines.

    Args:
        run: a `RunRecorder`, or its records.
        path: the file to write, if any.
        title: what stands above.

    Returns:
        the page's text.

    >>> import rushlight as rl
    >>> from rushlight.inspection import RunRecorder
    >>> with RunRecorder() as run:
    ...     _ = rl.ones(2).exp()
    >>> "aten.exp.default" in run_page(run)
    True
    """
    return document(title, [run_panel(run)], path)


_BODY = """<div class="run"><span id="place"></span>
<button id="back">Back</button> <button id="next">Next</button>
<button id="wrong">Next that makes NaN or infinity</button>
<input id="find" placeholder="operator, module or line">
<input id="at" type="range" min="0" max="{last}" value="0">
<main><ul id="list"></ul><section id="call"></section></main></div>"""


def run_panel(run):
    """The part of a page that steps through a recorded run.

    Args:
        run: a `RunRecorder`, or its records.
    """
    records = getattr(run, "records", run)
    body = _BODY.format(last=max(0, len(records) - 1))
    rows = [_row(record) for record in records]
    return Panel("Run", body, rows, _PROGRAM, _STYLE)


def _row(record):
    return {
        "name": record.name,
        "module": record.module,
        "source": record.source,
        "backward": record.backward,
        "inputs": [_tensor(t) for t in record.inputs],
        "outputs": [_tensor(t) for t in record.outputs],
    }


def _tensor(tensor):
    """A tensor's record in what the page's program reads; no number is null there."""
    elements = math.prod(tensor.shape) * (
        2 if tensor.dtype.startswith("complex") else 1
    )
    return {
        "text": repr(tensor),
        "nan": tensor.nan,
        "inf": tensor.inf,
        "step": math.ceil(elements / max(1, len(tensor.values))),
        "values": [v if math.isfinite(v) else None for v in tensor.values],
        "shown": [f"{v:.6g}" for v in tensor.values],
    }
