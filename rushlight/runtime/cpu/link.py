"""Links one ELF object file into a flat image: bytes that run wherever they are mapped.

Sections that hold code or constants are laid out one behind the other, references
between them are resolved, and what can only be known in the running process is listed:
slots that take ``base + offset`` and slots that take the address of a C library
function. Calls out of the image go through a stub that jumps through such a slot.
Only constants may be shared between calls: an object with writable data is refused.
"""

import struct
from dataclasses import dataclass, field

X86_64, AARCH64 = 62, 183
ALLOCATED, WRITABLE = 2, 1  # section flags
PROGRAM_BITS, RELOCATIONS, SYMBOLS = 1, 4, 2
NO_BITS = 8
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2
FUNCTION, SECTION = 2, 3  # symbol types
NEEDLESS = (".eh_frame", ".note", ".llvm_addrsig")


class LinkError(RuntimeError):
    """The object file holds something that a flat image can't."""


@dataclass
class Flat:
    """An image before it is packed.

    Attributes:
        code: the bytes.
        symbols: where each function starts.
        relative: ``(slot, offset)``: the slot takes ``base + offset``.
        external: ``(slot, addend, name)``: the slot takes that function's address.
    """

    code: bytearray = field(default_factory=bytearray)
    symbols: dict = field(default_factory=dict)
    relative: list = field(default_factory=list)
    external: list = field(default_factory=list)

    def append(self, data, align):
        """Adds bytes at the next multiple of ``align``; returns where they start."""
        self.code += bytes(-len(self.code) % align)
        start = len(self.code)
        self.code += data
        return start


@dataclass
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    info: int
    align: int
    start: int = -1  # where it lies in the image


@dataclass
class _Symbol:
    name: str
    kind: int
    section: int
    value: int


def link(binary: bytes) -> Flat:
    """The flat image of an object file.

    Raises:
        LinkError: it isn't a 64-bit little-endian object of a known machine, it has
            writable data, or a relocation of an unknown kind.
    """
    return _Linker(binary).run()


class _Linker:
    def __init__(self, binary):
        if binary[:6] != b"\x7fELF\x02\x01":
            raise LinkError("link: not a 64-bit little-endian ELF object file")
        self.binary = binary
        self.machine = struct.unpack_from("<H", binary, 18)[0]
        if self.machine not in APPLY:
            raise LinkError(f"link: unknown machine number {self.machine}")
        self.sections = self.read_sections()
        self.symbols = self.read_symbols()
        self.flat = Flat()
        self.slots = {}
        self.stubs = {}

    def read_sections(self):
        (table,) = struct.unpack_from("<Q", self.binary, 40)
        size, count, names = struct.unpack_from("<HHH", self.binary, 58)
        rows = [
            struct.unpack_from("<IIQQQQIIQQ", self.binary, table + i * size)
            for i in range(count)
        ]
        strings = rows[names][4]
        return [
            _Section(
                name=self.string(strings + name),
                kind=kind,
                flags=flags,
                data=b"" if kind == NO_BITS else self.binary[offset : offset + length],
                size=length,
                info=info,
                align=max(1, align),
            )
            for name, kind, flags, _, offset, length, _, info, align, _ in rows
        ]

    def string(self, start):
        return self.binary[start : self.binary.index(b"\0", start)].decode()

    def read_symbols(self):
        table = next((s for s in self.sections if s.kind == SYMBOLS), None)
        if table is None:
            raise LinkError("link: the object file has no symbols")
        names = next(s.data for s in self.sections if s.name == ".strtab")
        found = []
        rows = struct.iter_unpack("<IBBHQQ", table.data)
        for name, info, _, section, value, _ in rows:
            text = names[name : names.index(b"\0", name)].decode()
            if section == COMMON:
                raise LinkError(f"link: {text} is writable data: kernels have none")
            found.append(_Symbol(text, info & 15, section, value))
        return found

    def run(self):
        for section in self.sections:
            if section.flags & ALLOCATED and not section.name.startswith(NEEDLESS):
                self.place(section)
        for symbol in self.symbols:
            if symbol.kind == FUNCTION and symbol.section != UNDEFINED:
                self.flat.symbols[symbol.name] = self.address(symbol)
        apply = APPLY[self.machine]
        for section in self.sections:
            if section.kind == RELOCATIONS and self.sections[section.info].start >= 0:
                base = self.sections[section.info].start
                for offset, info, addend in struct.iter_unpack("<QQq", section.data):
                    symbol = self.symbols[info >> 32]
                    apply(self, base + offset, info & 0xFFFFFFFF, symbol, addend)
        return self.flat

    def place(self, section):
        if section.flags & WRITABLE and section.size and ".rel.ro" not in section.name:
            raise LinkError(
                f"link: section {section.name} is writable data: "
                f"{section.size} bytes, where kernels have none"
            )
        section.start = self.flat.append(
            section.data or bytes(section.size), section.align
        )

    def address(self, symbol):
        """Where a symbol of this object lies in the image."""
        if symbol.section == ABSOLUTE:
            raise LinkError(f"link: {symbol.name} is an absolute symbol")
        start = self.sections[symbol.section].start
        if start < 0:
            raise LinkError(f"link: {symbol.name} lies in a section that isn't loaded")
        return start + symbol.value

    def absolute(self, slot, symbol, addend):
        """Lists a slot that takes a symbol's final address."""
        if symbol.section == UNDEFINED:
            self.flat.external.append((slot, addend, symbol.name))
        else:
            self.flat.relative.append((slot, self.address(symbol) + addend))

    def slot(self, symbol):
        """The 8-byte slot that holds a symbol's address in the running process."""
        key = (symbol.name, symbol.section, symbol.value)
        if key not in self.slots:
            self.slots[key] = self.flat.append(bytes(8), 8)
            self.absolute(self.slots[key], symbol, 0)
        return self.slots[key]

    def target(self, symbol):
        """Where a call or a relative reference to a symbol goes: it, or its stub."""
        if symbol.section != UNDEFINED:
            return self.address(symbol)
        if symbol.name not in self.stubs:
            slot = self.slot(symbol)
            start = self.flat.append(bytes(8), 8)
            self.flat.code[start : start + 8] = STUBS[self.machine](slot - start)
            self.stubs[symbol.name] = start
        return self.stubs[symbol.name]

    def put(self, form, place, value):
        try:
            struct.pack_into(form, self.flat.code, place, value)
        except struct.error:
            raise LinkError(f"link: relocation out of reach: {value}") from None

    def patch(self, place, bits, shift, value):
        """Writes a bit field of an AArch64 instruction."""
        (word,) = struct.unpack_from("<I", self.flat.code, place)
        mask = ((1 << bits) - 1) << shift
        word = word & ~mask | (value << shift) & mask
        struct.pack_into("<I", self.flat.code, place, word)

    def unknown(self, kind, symbol):
        raise LinkError(
            f"link: relocation kind {kind} against {symbol.name or 'a section'} "
            f"(machine {self.machine})"
        )


def _apply_x86_64(linker, place, kind, symbol, addend):
    if kind == 1:  # 64
        linker.absolute(place, symbol, addend)
    elif kind in (2, 4):  # PC32, PLT32
        linker.put("<i", place, linker.target(symbol) + addend - place)
    elif kind in (9, 41, 42):  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        linker.put("<i", place, linker.slot(symbol) + addend - place)
    elif kind == 24:  # PC64
        linker.put("<q", place, linker.target(symbol) + addend - place)
    else:
        linker.unknown(kind, symbol)


# Relocation kind -> bytes of the access, of which the 12-bit offset is a multiple.
_LOW_12 = {277: 1, 278: 1, 284: 2, 285: 4, 286: 8, 299: 16}


def _apply_aarch64(linker, place, kind, symbol, addend):
    if kind == 257:  # ABS64
        linker.absolute(place, symbol, addend)
    elif kind in (260, 261):  # PREL64, PREL32
        linker.put(
            "<q" if kind == 260 else "<i", place, linker.target(symbol) + addend - place
        )
    elif kind in (282, 283):  # JUMP26, CALL26
        linker.patch(place, 26, 0, (linker.target(symbol) + addend - place) >> 2)
    elif kind == 280:  # CONDBR19
        linker.patch(place, 19, 5, (linker.target(symbol) + addend - place) >> 2)
    elif kind in (275, 311):  # ADR_PREL_PG_HI21, ADR_GOT_PAGE
        goal = linker.target(symbol) if kind == 275 else linker.slot(symbol)
        pages = (goal + addend >> 12) - (place >> 12)
        linker.patch(place, 2, 29, pages)
        linker.patch(place, 19, 5, pages >> 2)
    elif kind in _LOW_12:
        low = linker.target(symbol) + addend & 0xFFF
        linker.patch(place, 12, 10, low // _LOW_12[kind])
    elif kind == 312:  # LD64_GOT_LO12_NC
        linker.patch(place, 12, 10, (linker.slot(symbol) & 0xFFF) // 8)
    else:
        linker.unknown(kind, symbol)


def _stub_x86_64(distance):
    """``jmp [rip + distance]``, counted from the instruction's end."""
    return b"\xff\x25" + struct.pack("<i", distance - 6) + b"\x90\x90"


def _stub_aarch64(distance):
    """``ldr x16, [pc + distance]; br x16``."""
    return struct.pack("<II", 0x58000010 | (distance >> 2 & 0x7FFFF) << 5, 0xD61F0200)


APPLY = {X86_64: _apply_x86_64, AARCH64: _apply_aarch64}
STUBS = {X86_64: _stub_x86_64, AARCH64: _stub_aarch64}
