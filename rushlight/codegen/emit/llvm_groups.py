"""Renders what a warpgroup's units do as LLVM IR: assembly, for LLVM has no names for it.

Factors are described by 64 bits: where they begin in shared memory, how far their parts
lie apart, in units of 16 bytes, and how their lines are mixed (PTX's "matrix
descriptor"). Sums stay in registers between the instructions; each takes and gives all
of them, which is how LLVM sees in what order they are.
"""

SHARED = "ptr addrspace(3)"
DEPTH, STEP = 64, 16  # halves of a line, and those that an instruction takes
UNIT = 16  # bytes that descriptors count by
LINE = 2 * DEPTH  # bytes
MIXED = 1 << 62  # lines of 128 bytes, their runs mixed
MOST = 0x3FFFF  # bytes that a descriptor's beginning counts
EIGHT = 8 * LINE  # from eight lines to the next eight
ALIGNED = 1024  # what factors, and so the room of a launch, begin at
NAMES = {"float16": "f16", "bfloat16": "bf16"}


def descriptor(emitter, pointer, index, transposed):
    """What describes a factor from where it begins in shared memory."""
    address = emitter.address(pointer, index)
    near = emitter.fresh(f"addrspacecast ptr {address} to {SHARED}")
    number = emitter.fresh(f"ptrtoint {SHARED} {near} to i32")
    inside = emitter.fresh(f"and i32 {number}, {MOST}")
    units = emitter.fresh(f"lshr i32 {inside}, 4")
    wide = emitter.fresh(f"zext i32 {units} to i64")
    leading = DEPTH * LINE // UNIT if transposed else 1
    rest = MIXED | EIGHT // UNIT << 32 | leading << 16
    return emitter.fresh(f"or i64 {wide}, {rest}")


def sums_type(lanes):
    """What an instruction gives."""
    return "{ " + ", ".join(["float"] * lanes) + " }"


def through(emitter, sums, template, more=()):
    """Passes sums, and more numbers of 64 bits, through assembly; the new sums."""
    lanes, vector = sums.type.lanes, emitter.value(sums)
    kind = f"<{lanes} x float>"
    values = [
        emitter.fresh(f"extractelement {kind} {vector}, i64 {n}") for n in range(lanes)
    ]
    args = [f"float {value}" for value in values] + [f"i64 {value}" for value in more]
    positions = ["=f"] * lanes + list(map(str, range(lanes))) + ["l"] * len(more)
    made = emitter.fresh(
        f'call {sums_type(lanes)} asm sideeffect "{template}", '
        f'"{",".join(positions)},~{{memory}}"({", ".join(args)})'
    )
    result = "poison"
    for n in range(lanes):
        one = emitter.fresh(f"extractvalue {sums_type(lanes)} {made}, {n}")
        result = emitter.fresh(f"insertelement {kind} {result}, float {one}, i64 {n}")
    return result


def group_product(emitter, e):
    """Four instructions, for the depth of a line, which are a group of their own."""
    sums, left, left_index, right, right_index = e.args
    lanes = sums.type.lanes
    factors = (left, left_index), (right, right_index)
    begun = [
        descriptor(emitter, *factor, transposed)
        for factor, transposed in zip(factors, e.transposed, strict=True)
    ]
    more, lines = [], []
    kind = NAMES[left.type.element.name]
    own = ", ".join(f"${n}" for n in range(lanes))
    transposed = ", ".join(str(int(t)) for t in e.transposed)
    for step in range(DEPTH // STEP):
        for first, across in zip(begun, e.transposed, strict=True):
            bytes = step * STEP * (LINE if across else 2)
            more.append(emitter.fresh(f"add i64 {first}, {bytes // UNIT}"))
        place = 2 * lanes + 2 * step
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n{2 * lanes}k{STEP}.f32.{kind}.{kind} "
            f"{{{own}}}, ${place}, ${place + 1}, p, 1, 1, {transposed};"
        )
    template = "\\0A".join(
        [
            "{ .reg .pred p;",
            "setp.eq.b32 p, 0, 0;",
            "wgmma.fence.sync.aligned;",
            *lines,
            "wgmma.commit_group.sync.aligned; }",
        ]
    )
    return through(emitter, sums, template, more)


def await_products(emitter, e):
    """Waits for all groups but the last ones."""
    emitter.memo = {}
    template = f"wgmma.wait_group.sync.aligned {e.pending};"
    return through(emitter, e.args[0], template)


def show_units(emitter, s):
    """Orders what this thread wrote to shared memory before what units read."""
    template = "fence.proxy.async.shared::cta;"
    emitter.lines.append(f'  call void asm sideeffect "{template}", "~{{memory}}"()')
    emitter.memo = {}


def name_room(emitter):
    """Names the room of a launch, where a block's arrays take more than any device gives."""
    from rushlight.codegen.schedule.gpu_lowering import positions_of

    emitter.room, _ = positions_of(emitter.function.body)
    if emitter.room:
        emitter.module.shared.append(
            f"@{emitter.name}_room = external addrspace(3) global [0 x i8], "
            f"align {ALIGNED}"
        )
