"""Renders numbers of constant tables, of which every lane takes its own."""

from rushlight.codegen.emit.llvm_text import literals, suffix, type_name
from rushlight.ir import expr as ir
from rushlight.ir.expr import Type

UNIT = 16  # bytes that are loaded of a row at once


class Tables:
    """The part of the emitter that looks up; see `llvm_expressions.Expressions`."""

    def lookup(self, e):
        """The constant at the place that an index's low bits name.

        From registers where the processor permutes the table's, from memory elsewhere.
        """
        index, *table = e.args
        target = self.module.target
        register = 8 * target.vector_bytes // e.type.bits
        parts, whole = len(table) // register, e.type.lanes % register == 0
        most = 2 if target.has("v4") else 4 if target.has("v3") else 0
        if e.type.bits == 16:
            most = int(target.has("v4"))
        if not 1 <= parts <= most or not whole:
            return self.lookup_in_memory(e.type, index & (len(table) - 1), table)
        if e.type.lanes > register:
            return self.lookup_in_halves(e, index, table)
        part = e.type.scalar.vector(register)
        registers = [
            f"{type_name(part)} {literals(table[k : k + register])}"
            for k in range(0, len(table), register)
        ]
        if target.has("v4"):
            return self.permuted(part, index, registers)
        return self.permuted_and_blended(part, index, registers)

    def permuted(self, type, index, registers):
        """One permutation of one or two registers, by AVX-512."""
        kind, positions = type_name(type), self.typed(index)
        letter = {16: "h", 32: "s", 64: "d"}[type.bits]
        if len(registers) == 1:
            word = f"{letter}i" if type.bits == 16 else f"{letter}f"
            name, operands = f"permvar.{word}.512", [registers[0], positions]
        else:
            name = f"vpermi2var.p{letter}.512"
            operands = [registers[0], positions, registers[1]]
        name = f"llvm.x86.avx512.{name}"
        self.module.declare(name, kind, *[o.split(">")[0] + ">" for o in operands])
        return self.fresh(f"call {kind} @{name}({', '.join(operands)})")

    def permuted_and_blended(self, type, index, registers):
        """A permutation of each register, and a choice for each further bit, by AVX2."""
        kind, lanes = type_name(type), type.lanes
        single, words = "<8 x float>", "<8 x i32>"
        name = self.module.declare("llvm.x86.avx2.permps", single, single, words)
        positions = self.value(index)
        if type.bits == 64:  # halves are moved, each by a place of its own
            twice = (index << 1) & 6
            positions = self.value(twice | (twice << 32) | (1 << 32))
            positions = self.fresh(f"bitcast <4 x i64> {positions} to {words}")
        found = []
        for register in registers:
            if type.bits == 64:
                register = f"{single} bitcast ({register} to {single})"
            moved = self.fresh(
                f"call {single} @{name}({register}, {words} {positions})"
            )
            if type.bits == 64:
                moved = self.fresh(f"bitcast {single} {moved} to {kind}")
            found.append(moved)
        bit = lanes.bit_length() - 1
        index = ir.Reinterpret(Type(f"int{type.bits}").like(index.type), index)
        while len(found) > 1:  # blends look at the sign
            sign = self.value((index << type.bits - 1 - bit) < 0)
            found = [
                self.fresh(f"select <{lanes} x i1> {sign}, {kind} {high}, {kind} {low}")
                for low, high in zip(found[::2], found[1::2], strict=True)
            ]
            bit += 1
        return found[0]

    def lookup_in_halves(self, e, index, table):
        """A vector of several registers, two halves of it at a time."""
        half = e.type.lanes // 2
        sides = [
            ir.Call(
                "lookup",
                e.type.scalar.vector(half),
                ir.Shuffle(range(first, first + half), index, index),
                *(ir.Const(e.type.scalar.vector(half), c.value) for c in table),
            )
            for first in (0, half)
        ]
        return self.value(ir.Shuffle(range(e.type.lanes), *sides))

    def lookup_in_memory(self, type, index, table):
        element, lanes = type_name(type.scalar), type.lanes
        name = self.module.table(element, literals(table))
        place = self.value(index)
        address = self.fresh(
            f"getelementptr inbounds {element}, ptr @{name}, "
            f"{type_name(index.type)} {place}"
        )
        if lanes == 1:
            return self.fresh(f"load {element}, ptr {address}")
        kind, where, mask = type_name(type), f"<{lanes} x ptr>", f"<{lanes} x i1>"
        gather = self.module.declare(
            f"llvm.masked.gather.{suffix(type)}.v{lanes}p0", kind, where, mask, kind
        )
        return self.fresh(
            f"call {kind} @{gather}({where} align {type.itemsize} {address}, "
            f"{mask} splat (i1 true), {kind} zeroinitializer)"
        )

    def column(self, e):
        """The number in a column of the row that an index's low bits name.

        The lanes' rows are loaded by parts of 16 bytes and turned over, so that a part's
        further columns cost nothing.
        """
        index, column, width, *table = e.args
        per_row, place, lanes = width.value, column.value, e.type.lanes
        element = type_name(e.type.scalar)
        name = self.module.table(element, literals(table))
        several = UNIT // e.type.itemsize
        if lanes % several:
            starts = (index & (len(table) // per_row - 1)) * per_row + place
            return self.lookup_in_memory(e.type, starts, table)
        key = name, self.value(index)
        if key not in self.rows:
            self.rows[key] = self.addresses(name, index, table, per_row)
        part = *key, place // several
        if part not in self.rows:
            start = place // several * UNIT
            self.rows[part] = self.columns_of_part(e.type, self.rows[key], start)
        return self.rows[part][place % several]

    def addresses(self, name, index, table, per_row):
        """Where the row of each lane lies."""
        bytes_of_row = per_row * (table[0].type.itemsize)
        offsets = (index & (len(table) // per_row - 1)) * bytes_of_row
        vector, found = self.typed(offsets), []
        for lane in range(offsets.type.lanes):
            offset = self.fresh(f"extractelement {vector}, i64 {lane}")
            if offsets.type.bits < 64:
                offset = self.fresh(f"zext i{offsets.type.bits} {offset} to i64")
            found.append(
                self.fresh(f"getelementptr inbounds i8, ptr @{name}, i64 {offset}")
            )
        return found

    def columns_of_part(self, type, rows, start):
        """Vectors of the columns that lie in one part of the rows."""
        several = UNIT // type.itemsize
        part = type.scalar.vector(several)
        units = []
        for row in rows:
            place = self.fresh(f"getelementptr inbounds i8, ptr {row}, i64 {start}")
            load = f"load {type_name(part)}, ptr {place}, align {type.itemsize}"
            units.append(self.fresh(load))
        register = max(self.module.target.vector_bytes // type.itemsize, several)
        register = min(register, type.lanes)
        blocks = []
        for first in range(0, type.lanes, register):
            block = units[first : first + register]
            mixed = [self.side_by_side(part, block[k::several]) for k in range(several)]
            blocks.append(self.transposed(type.scalar.vector(register), mixed, 1))
        whole = type.scalar.vector(register)
        return [self.side_by_side(whole, column) for column in zip(*blocks)]

    def transposed(self, type, vectors, run):
        """Columns of the rows that vectors hold, one in every 16 bytes of theirs."""
        if len(vectors) == 1:
            return vectors
        several = UNIT // type.itemsize
        half, found = several // 2, []
        for side in (0, half):
            picked = [
                unit + side + first + lane + other
                for unit in range(0, type.lanes, several)
                for first in range(0, half, run)
                for other in (0, type.lanes)
                for lane in range(run)
            ]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            found += self.transposed(
                type, [self.mixed(type, *pair, picked) for pair in pairs], 2 * run
            )
        return found

    def side_by_side(self, type, vectors):
        """One vector of several."""
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            picked = range(2 * type.lanes)
            vectors = [self.mixed(type, *pair, picked) for pair in pairs]
            type = type.scalar.vector(2 * type.lanes)
        return vectors[0]

    def mixed(self, type, low, high, picked):
        """Elements of two vectors."""
        picks, kind = ", ".join(f"i32 {place}" for place in picked), type_name(type)
        mask = f"<{picks.count(',') + 1} x i32> <{picks}>"
        return self.fresh(f"shufflevector {kind} {low}, {kind} {high}, {mask}")
