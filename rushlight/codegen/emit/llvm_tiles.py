"""Renders the steps of a processor's tiles as LLVM IR: x86's AMX, by its intrinsics.

Tiles are named by number and are no values, so LLVM keeps the order of the steps as
that of calls with effects. All eight have one shape, which a constant of 64 bytes says.
"""

ROWS, BYTES, TILES = 16, 64, 8
NAMES = {
    "load": "tileloadd64",
    "stream": "tileloaddt164",
    "store": "tilestored64",
    "pairs": "tdpbf16ps",
    "fours": "tdpbssd",
    "unsigned_fours": "tdpbusd",
}


def shape():
    """What ``ldtilecfg`` reads: a palette, bytes of rows from 16, numbers of them from 48.

    >>> len(shape()), shape()[0], shape()[16], shape()[48]
    (64, 1, 64, 16)
    """
    columns = b"".join(BYTES.to_bytes(2, "little") for _ in range(TILES))
    return bytes([1, *[0] * 15]) + columns + bytes([0] * 16 + [ROWS] * TILES + [0] * 8)


def tile_step(emitter, s):
    """One step; see `expr.TileStep`."""

    def call(name, *args):
        kinds = [arg.split()[0] for arg in args]
        emitter.module.declare(f"llvm.x86.{name}", "void", *kinds)
        emitter.lines.append(f"  call void @llvm.x86.{name}({', '.join(args)})")

    if s.name == "configure":
        text = "".join(f"\\{byte:02X}" for byte in shape())
        emitter.module.declarations["tile.shape"] = (
            f'@tile.shape = private unnamed_addr constant [64 x i8] c"{text}", align 64'
        )
        call("ldtilecfg", "ptr @tile.shape")
    elif s.name == "release":
        call("tilerelease")
    elif s.name == "zero":
        call("tilezero", f"i8 {s.tile}")
    elif s.pointer is None:
        call(NAMES[s.name], f"i8 {s.tile}", f"i8 {s.left}", f"i8 {s.right}")
    else:
        address, pitch = emitter.address(s.pointer, s.index), emitter.value(s.pitch)
        call(NAMES[s.name], f"i8 {s.tile}", f"ptr {address}", f"i64 {pitch}")
