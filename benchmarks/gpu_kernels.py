"""What GPU kernels take: registers, threads, occupancy, bytes in flight, float64 instructions.

``python -m benchmarks.gpu_kernels`` has each call below make its kernels for an imagined card,
assembles them and prints a table; ``--write`` puts it into ``benchmarks/GPU_KERNELS.md``.
Nothing is launched. What is said of bandwidth is a model (`share_of_copy`), no measurement.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import rushlight as rl
from benchmarks.launching import idle_entry
from rushlight.nn import functional as F
from rushlight.runtime.cuda.launch import set_entry
from tests.codegen.ptxas import PTXAS
from tests.cuda import conftest
from tests.cuda.test_training import LeNet

PAGE = Path(__file__).with_name("GPU_KERNELS.md")
# One multiprocessor of an H200
REGISTERS, THREADS, BLOCKS, SHARED = 65536, 2048, 32, 233472
REGISTERS_OF_WARP = 256  # come in such portions
# Bytes that must be under way for all of its bandwidth: 4.8 TB/s for 700 ns over 132
NEEDED = 4.8e12 * 700e-9 / 132
BYTES = re.compile(r"\.v(\d+)|\.[busf](\d+)")
DOUBLE = re.compile(r"^\s+(?:@!?%p\d+ )?[a-z]+[\w.]*\.f64\b", re.MULTILINE)


def step_of_lenet(x, *_):
    """A step of training."""
    model = LeNet().to("cuda")
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = rl.empty(8, 1, 12, 12, device="cuda"), rl.arange(8, device="cuda")
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()


def slope(x, function):
    """The gradient of a function."""
    y = function(x.detach().requires_grad_())
    y.backward(x)


def sampled(x):
    """An image at points, and the gradient of those."""
    image = x.view(16, 16, 256, 256)
    points = x[:, :32].reshape(16, 64, 64, 2).detach().requires_grad_()
    F.grid_sample(image, points, align_corners=False).sum().backward()


def attended(h):
    """Attention of heads of 64, and its gradients."""
    q = h.view(16, 8, 2048, 64).detach().requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


CALLS = {
    "x + y": lambda x, h, n: x + x.clone(),
    "x + y, halves": lambda x, h, n: h + h.clone(),
    "exp": lambda x, h, n: x.exp(),
    "gelu, halves": lambda x, h, n: F.gelu(h),
    "silu": lambda x, h, n: F.silu(x),
    "sin": lambda x, h, n: x.sin(),
    "pow": lambda x, h, n: x.pow(x.clone()),
    "where": lambda x, h, n: rl.where(x > 0, x, x.clone()),
    "transposed copy": lambda x, h, n: x.t().contiguous(),
    "sum of all": lambda x, h, n: x.sum(),
    "sum of rows": lambda x, h, n: x.sum(1),
    "sum of columns": lambda x, h, n: x.sum(0),
    "argmax of rows": lambda x, h, n: x.argmax(1),
    "softmax": lambda x, h, n: x.softmax(1),
    "layer_norm, halves": lambda x, h, n: F.layer_norm(h, (4096,), h[0], h[0]),
    "cross_entropy": lambda x, h, n: F.cross_entropy(x, n),
    "var of columns": lambda x, h, n: x.var(0),
    "prod of rows": lambda x, h, n: x.prod(1),
    "batch_norm": lambda x, h, n: F.batch_norm(x, None, None, training=True),
    "cumsum": lambda x, h, n: x.cumsum(1),
    "logcumsumexp": lambda x, h, n: x.logcumsumexp(1),
    "embedding": lambda x, h, n: F.embedding(n, x),
    "gather": lambda x, h, n: x.gather(1, n[:, None]),
    "dropout": lambda x, h, n: F.dropout(x, 0.5),
    "softmax's gradient": lambda x, h, n: slope(x, lambda x: x.softmax(1)),
    "layer_norm's gradient": lambda x, h, n: slope(
        x, lambda x: F.layer_norm(x, (4096,))
    ),
    "sort": lambda x, h, n: x.sort(1),
    "sort of all": lambda x, h, n: x.flatten().sort(),
    "top-k": lambda x, h, n: x.topk(8, 1),
    "scatter_add": lambda x, h, n: x.scatter_add(1, n[:, None], x),
    "index_add": lambda x, h, n: x.index_add(0, n, x),
    "grid_sample": lambda x, h, n: sampled(x),
    "attention, halves": lambda x, h, n: attended(h),
    "LeNet's step": step_of_lenet,
}


@dataclass(frozen=True)
class Kernel:
    """One entry, as ptxas and its text tell of it.

    Attributes:
        name: of the entry.
        registers: of a thread.
        spilled: bytes of those that a thread keeps in memory.
        threads: of a block, at most.
        shared: bytes of a block.
        in_flight: bytes that a thread asks for before it waits.
        doubles: float64 instructions.
    """

    name: str
    registers: int
    spilled: int
    threads: int
    shared: int
    in_flight: int
    doubles: int

    @property
    def occupancy(self):
        """The share of a multiprocessor's threads that there is room for."""
        warps = -(-self.threads // 32)
        portion = -(-self.registers * 32 // REGISTERS_OF_WARP) * REGISTERS_OF_WARP
        limits = [BLOCKS, THREADS // (32 * warps), REGISTERS // (portion * warps)]
        if self.shared:
            limits.append(SHARED // (self.shared + 1024))
        return min(limits) * warps * 32 / THREADS

    @property
    def share_of_copy(self):
        """By Little's law: what is under way over what must be, at most one."""
        return min(1.0, self.occupancy * THREADS * self.in_flight / NEEDED)


def bytes_in_flight(text):
    """The most bytes that a run of instructions without a branch loads from global memory,
    at addresses that follow from none of them.

    >>> bytes_in_flight("ld.global.v4.b32 {%r1}, [%rd1];\\nld.global.b16 %h1, [%rd2+2];")
    18
    >>> bytes_in_flight("ld.global.b64 %rd3, [%rd1];\\nld.global.f32 %f1, [%rd3];")
    8
    """
    most, found, waiting = 0, 0, set()
    for line in map(str.strip, text.splitlines()):
        registers = re.findall(r"%\w+", line)
        if line.endswith(":") or "bra" in line.split(" ")[0] or line.startswith("@"):
            found, waiting = 0, set()
        elif line.startswith("ld.global"):
            place = set(re.findall(r"%\w+", line[line.index("[") :]))
            if not place & waiting:
                count, width = 1, 0
                for several, bits in BYTES.findall(line.split()[0]):
                    count, width = int(several or count), int(bits or 8 * width) // 8
                found += count * width
            waiting |= set(registers) - place
        elif registers and set(registers[1:]) & waiting:
            waiting.add(registers[0])
        most = max(most, found)
    return most


def assembled(name, text, architecture="sm_90a"):
    """A `Kernel` of a text."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(text, encoding="utf-8")
        command = [PTXAS, f"-arch={architecture}", "-v", str(source), "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    bound = re.search(r"\.maxntid (\d+)", text)

    def number(pattern):
        return max(map(int, re.findall(pattern, said.stderr)), default=0)

    return Kernel(
        name,
        number(r"Used (\d+) reg"),
        number(r"(\d+) bytes spill stores"),
        int(bound[1]) if bound else 1024,
        number(r"(\d+) bytes smem"),
        bytes_in_flight(text),
        len(DOUBLE.findall(text)),
    )


def kernels():
    """Pairs of a call and a kernel that it needs and none before it did."""
    with conftest.imagined(conftest.Machine()) as machine:
        machine.start(cards=1, memory=1 << 30)
        address, engine = idle_entry()
        x = rl.empty(4096, 4096, device="cuda")
        h, n = x.bfloat16(), rl.empty(4096, dtype=rl.int64, device="cuda")
        set_entry(address)
        seen = set()
        for call, run in CALLS.items():
            run(x, h, n)
            for item in list(machine.fake.live.values()):
                if hasattr(item, "most_threads") and item.name not in seen:
                    seen.add(item.name)
                    yield call, assembled(item.name, item.text)
        del engine


def table():
    """The lines of the page's table."""
    head = "call kernel registers spilled threads occupancy in\N{NO-BREAK SPACE}flight model f64"
    yield "| " + " | ".join(head.split(" ")) + " |"
    yield "|---|---|" + "---:|" * 7
    for call, k in kernels():
        yield (
            f"| {call} | {k.name[:48]} | {k.registers} | {k.spilled} | {k.threads} | "
            f"{k.occupancy:.0%} | {k.in_flight} | {k.share_of_copy:.0%} | {k.doubles} |"
        )


HEAD = """\
# What GPU kernels take

Made by `python -m benchmarks.gpu_kernels --write`, for sm_90 with ptxas: registers and spilled
bytes of a thread, threads of a block at most, the share of an H200's threads that those leave
room for, bytes that a thread loads before it waits (counted in the text: runs without a branch),
the share of the bandwidth which that suffices for by Little's law (4.8 TB/s, 700 ns), and
float64 instructions. **A model, no measurement**: where a row has few bytes under way and many
threads, or answers come from caches, it says too little; conflicts and arithmetic it does not
see.

"""


def main(arguments):
    """Prints the table, or writes the page."""
    lines = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    if "--write" in arguments:
        PAGE.write_text(HEAD + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
