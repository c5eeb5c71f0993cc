"""Memory over time as a picture, and the blocks that were held at a moment."""

from rushlight.inspection._viewer import Panel

_STYLE = """
.memory svg { border: 1px solid #d5dae3; display: block; cursor: crosshair; }
.memory .key { display: inline-block; margin-right: 1em; white-space: nowrap; }
.memory .key b { display: inline-block; width: .9em; height: .9em; margin-right: .3em; }
.memory td.bar { padding: 0; } .memory td.bar div { height: .8em; }
"""

_BODY = """<div class="memory"><p>by <select id="memory-kind"><option>line</option>
<option>module</option><option>operator</option></select>
<button id="memory-peak">Peak</button> <span id="memory-now"></span></p>
<div id="memory-keys"></div>
<svg id="memory-picture" viewBox="0 0 1200 320" width="100%" height="320"
 preserveAspectRatio="none"></svg>
<table id="memory-live"></table><div id="memory-leaks"></div></div>"""

# Times are cut into columns; a column shows the moment of it at which most was held.
_PROGRAM = """
const COLORS = ["#1565c0", "#2e7d32", "#c62828", "#c9a227", "#8e24aa", "#00838f",
                "#ef6c00", "#6d4c41", "#546e7a"];
const W = 1200, H = 320, POSITIONS = {line: 3, module: 4, operator: 5};
const $ = name => root.querySelector("#memory-" + name);
const blocks = data.blocks, span = Math.max(data.end, 1e-9);
const name = (block, place) => data.names[block[place]] || "-";
const changes = [];
blocks.forEach((block, n) => {
  changes.push([block[1], block[0], n]);
  if (block[2] !== null) changes.push([block[2], -block[0], n]);
});
changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
function groupsOf(place) {
  const sums = new Map();
  for (const block of blocks)
    sums.set(name(block, place), (sums.get(name(block, place)) || 0) + block[0]);
  const live = new Map();
  for (const block of blocks)
    if (block[1] <= data.peak && (block[2] === null || data.peak < block[2]))
      live.set(name(block, place), (live.get(name(block, place)) || 0) + block[0]);
  const names = [...sums.keys()].sort(
    (a, b) => (live.get(b) || 0) - (live.get(a) || 0) || sums.get(b) - sums.get(a));
  return names.slice(0, COLORS.length - 1);
}
function columns(place, groups) {
  const held = new Array(COLORS.length).fill(0), best = [];
  let total = 0;
  const state = () => ({total, held: held.slice()});
  let column = -1;
  for (const [time, change, n] of changes) {
    const at = Math.min(W - 1, Math.floor(time / span * W));
    while (column < at) best[++column] = state();
    const group = groups.indexOf(name(blocks[n], place));
    held[group < 0 ? COLORS.length - 1 : group] += change;
    total += change;
    if (total > best[column].total) best[column] = state();
  }
  while (column < W - 1) best[++column] = state();
  return best;
}
function draw() {
  const place = POSITIONS[$("kind").value], groups = groupsOf(place);
  const best = columns(place, groups), picture = $("picture");
  const most = Math.max(1, ...best.map(one => one.total));
  picture.replaceChildren(); $("keys").replaceChildren();
  const below = new Array(W).fill(0);
  COLORS.forEach((color, group) => {
    if (!best.some(one => one.held[group] > 0)) return;
    const up = [], down = [];
    best.forEach((one, x) => {
      const from = H - below[x] / most * H, to = from - one.held[group] / most * H;
      up.push(`${x},${to.toFixed(1)} ${x + 1},${to.toFixed(1)}`);
      down.push(`${x + 1},${from.toFixed(1)} ${x},${from.toFixed(1)}`);
      below[x] += one.held[group];
    });
    drawn(picture, "polygon", {fill: color, points: [...up, ...down.reverse()].join(" ")});
    const key = element($("keys"), "span", "", "key");
    element(key, "b", "").style.background = color;
    key.append(group < groups.length ? groups[group] : "others");
  });
  for (const step of data.steps)
    drawn(picture, "line", {x1: step / span * W, x2: step / span * W, y1: 0, y2: H,
                            stroke: "#888", "stroke-dasharray": "4 4"});
}
let cursor = null;
function show(moment) {
  const live = blocks.filter(b => b[1] <= moment && (b[2] === null || moment < b[2]));
  live.sort((a, b) => b[0] - a[0]);
  const total = live.reduce((sum, block) => sum + block[0], 0);
  $("now").textContent = `at ${(moment / 1000).toFixed(3)} ms: ${readable(total)} in ` +
    `${live.length} blocks, ${readable(data.before)} held before; peak ` +
    readable(data.most);
  if (cursor) cursor.remove();
  const x = moment / span * W;
  cursor = drawn($("picture"), "line", {x1: x, x2: x, y1: 0, y2: H, stroke: "#000"});
  const table = $("live");
  table.replaceChildren();
  const head = element(table, "tr", "");
  for (const title of ["bytes", "operator", "module", "line"]) element(head, "th", title);
  for (const block of live.slice(0, 200)) {
    const row = element(table, "tr", "");
    element(row, "td", readable(block[0]), "number");
    for (const place of [5, 4]) element(row, "td", name(block, place));
    element(element(row, "td", ""), "code", name(block, 3));
    row.title = data.stacks[block[6]].join("\\n");
  }
}
$("kind").onchange = () => { draw(); show(data.peak); };
$("peak").onclick = () => show(data.peak);
$("picture").onclick = event => {
  const box = $("picture").getBoundingClientRect();
  show((event.clientX - box.left) / box.width * span);
};
for (const leak of data.leaks) element($("leaks"), "p", leak);
draw(); show(data.peak);
"""


def memory_panel(memory):
    """The part of a page that shows where memory went.

    Args:
        memory: a `MemoryRecorder` whose block is over.
    """
    begun = min((block.start_ns for block in memory.blocks), default=0)
    ends = [block.end_ns or block.start_ns for block in memory.blocks]
    time = lambda moment: (moment - begun) / 1000  # noqa: E731
    names, stacks = _Numbers(), _Numbers()
    rows = [
        [
            block.size,
            time(block.start_ns),
            None if block.end_ns is None else time(block.end_ns),
            *(names[text] for text in (block.line, block.module, block.operator)),
            stacks[block.stack],
        ]
        for block in memory.blocks
    ]
    leaks = [
        f"left by steps {', '.join(map(str, leak.steps))}: {leak.size:,} bytes of "
        f"{leak.operator or 'no operator'}, {leak.line}"
        for leak in memory.leaks()
    ]
    data = {
        "blocks": rows,
        "names": list(names),
        "stacks": list(stacks),
        "before": memory.held_before,
        "most": memory.peak,
        "peak": time(memory.peak_ns),
        "end": time(max([*ends, *memory.steps], default=begun)),
        "steps": [time(moment) for moment in memory.steps],
        "leaks": leaks,
    }
    return Panel("Memory", _BODY, data, _PROGRAM, _STYLE)


class _Numbers(dict):
    """Values by the order in which they came, each once."""

    def __missing__(self, value):
        self[value] = number = len(self)
        return number
