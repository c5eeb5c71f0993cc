"""cuBLASLt without a card: its descriptions, its heuristics, and late products by NumPy."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

from tests.cuda.driver import Misuse, Work, near
from tests.cuda.libraries import Fake, LibraryError

KINDS = {
    0: np.float32,
    1: np.float64,
    2: np.float16,
    3: np.int8,
    4: np.complex64,
    5: np.complex128,
    10: np.int32,
    14: np.uint16,
    28: np.uint8,
    29: np.uint8,
}  # bfloat16: the upper half of float32
EIGHTS = tuple((kind, result) for kind in (28, 29) for result in (0, 2, 14, 28, 29))
# By how sums are taken: the types of scales, and of factors and results beside one another.
COMPUTED = {
    68: {0: (*EIGHTS, (0, 0), (2, 2), (2, 0), (14, 14), (14, 0)), 4: ((4, 4),)},
    77: {0: ((0, 0),)},
    70: {1: ((1, 1),), 5: ((5, 5),)},
    72: {10: ((3, 10),)},
}
# Attributes and how many bytes each takes: of products, of matrices, of preferences.
PRODUCT = {
    2: 4, 3: 4, 4: 4, 7: 4, 8: 8, 17: 8, 18: 8, 20: 8, 25: 1, 26: 4, 31: 4, 32: 4,
}  # fmt: skip
MATRIX = {5: 4, 6: 8}
PREFERENCE = {1: 8, 5: 4, 6: 4, 7: 4, 8: 4}


class CublasLt(Fake):
    """``nvmath.bindings.cublasLt``."""

    name = "cublas"
    module = "cublasLt"

    def __init__(self, driver):
        super().__init__(driver)
        self.objects: dict = {}
        self.supported = True

    def new(self, kind, **facts):
        self.made += 1
        number = 0x5000_0000 + 16 * self.made
        self.objects[number] = SimpleNamespace(kind=kind, attributes={}, **facts)
        return number

    def object(self, number, kind):
        found = self.objects.get(number)
        if found is None or found.kind != kind:
            raise Misuse(f"{number:#x} is no {kind} of cublasLt")
        return found

    def end(self, number, kind):
        self.object(number, kind)
        del self.objects[number]

    def take(self, number, kind, sizes, attr, buf, size_in_bytes):
        """Sets an attribute from the host's memory."""
        if sizes.get(attr) != size_in_bytes:
            self.refuse(f"attribute {attr} of {size_in_bytes} bytes")
        word = ctypes.string_at(buf, size_in_bytes)
        self.object(number, kind).attributes[attr] = int.from_bytes(word, "little")

    def matmul_desc_create(self, compute_type, scale_type):
        if scale_type not in COMPUTED.get(compute_type, ()):
            self.refuse("scales of another type than sums")
        return self.new("product", compute=compute_type, scale=scale_type)

    def matmul_desc_destroy(self, matmul_desc):
        self.end(matmul_desc, "product")

    def matmul_desc_set_attribute(self, matmul_desc, attr, buf, size_in_bytes):
        self.take(matmul_desc, "product", PRODUCT, attr, buf, size_in_bytes)

    def matrix_layout_create(self, type, rows, cols, ld):
        if ld < rows or rows < 1 or cols < 1:
            self.refuse(f"{rows} rows {ld} apart")
        return self.new("matrix", type=type, rows=rows, columns=cols, lead=ld)

    def matrix_layout_destroy(self, mat_layout):
        self.end(mat_layout, "matrix")

    def matrix_layout_set_attribute(self, mat_layout, attr, buf, size_in_bytes):
        self.take(mat_layout, "matrix", MATRIX, attr, buf, size_in_bytes)

    def matmul_preference_create(self):
        return self.new("preference")

    def matmul_preference_destroy(self, pref):
        self.end(pref, "preference")

    def matmul_preference_set_attribute(self, pref, attr, buf, size_in_bytes):
        self.take(pref, "preference", PREFERENCE, attr, buf, size_in_bytes)

    def asked(self, description, adesc, bdesc, cdesc, ddesc):
        """The product that is described; refused where it makes no sense."""
        found = self.object(description, "product")
        a, b, c, d = (self.object(n, "matrix") for n in (adesc, bdesc, cdesc, ddesc))
        flags = [found.attributes.get(place, 0) for place in (3, 4)]
        if max(flags) > 1:
            self.refuse("conjugates")
        (m, k), (depth, n) = (
            (x.columns, x.rows) if flag else (x.rows, x.columns)
            for x, flag in zip((a, b), flags, strict=True)
        )
        wrong = (
            k != depth or (d.rows, d.columns) != (m, n) or (c.rows, c.columns) != (m, n)
        )
        known = (a.type, d.type) in COMPUTED[found.compute][found.scale]
        both = {a.type, b.type}
        eight = both <= {28, 29}
        known = known and (len(both) == 1 or eight)
        small = d.type in EIGHT
        beside = c.type in (2, 14) if small else c.type == d.type
        if wrong or not known or not beside:
            self.refuse("sizes or types that do not go together")
        if 20 in found.attributes and not small:
            self.refuse("a scale of a result that is not of eight bits")
        modes = [found.attributes.get(place, 0) for place in (31, 32)]
        if small and (d.type not in both or any(modes)):
            raise LibraryError(15, "no algorithm for such results of eight bits")
        if len({x.attributes.get(5, 1) for x in (a, b, c, d)}) > 1:
            self.refuse("batches of different sizes")
        if eight and (both == {29} or flags != [1, 0] or (m | n | k) & 15):
            raise LibraryError(15, "no algorithm for eight bits")
        if found.compute == 77 and KINDS[a.type] is not np.float32:
            self.refuse("TF32 of other types")
        return found, a, b, c, d, flags, (m, n, k)

    def matmul_algo_get_heuristic(
        self, light_handle, operation_desc, adesc, bdesc, cdesc, ddesc, preference,
        requested_algo_count, heuristic_results_array, return_algo_count,
    ):  # fmt: skip
        self.known(light_handle)
        *_, sizes = self.asked(operation_desc, adesc, bdesc, cdesc, ddesc)
        preferred = self.object(preference, "preference").attributes
        if preferred.get(1, 0) < 1 << 20:
            self.refuse("no work space")
        count = int(self.supported)
        result = (ctypes.c_uint64 * 12).from_address(heuristic_results_array)
        result[0], result[8] = 0xA160, 64 * sum(sizes)
        for n in range(4):  # what an algorithm may assume where nobody said less
            result[1 + n] = preferred.get(5 + n, 256)
        ctypes.c_int32.from_address(return_algo_count).value = count
        if not self.supported:
            raise LibraryError(15, "not supported")

    def span(self, address, seen, what):
        """Checks a batch of matrices; what gives its elements when the work is done."""
        kind = np.dtype(KINDS[seen.type])
        if address % kind.itemsize:
            raise Misuse(f"cublasLt: {what} at {address:#x} is no place of {kind}")
        count, step = seen.attributes.get(5, 1), seen.attributes.get(6, 0)
        elements = (count - 1) * step + (seen.columns - 1) * seen.lead + seen.rows
        held = self.memory(address, elements * kind.itemsize, what)

        def values():
            self.driver.still(held, f"cublasLt ({what})")
            raw = (ctypes.c_char * (elements * kind.itemsize)).from_address(
                near(address)
            )
            steps = [n * kind.itemsize for n in (step, 1, seen.lead)]
            shape = count, seen.rows, seen.columns
            return np.lib.stride_tricks.as_strided(
                np.frombuffer(raw, kind), shape, steps
            )

        return values

    def matmul(
        self, light_handle, compute_desc, alpha, a, adesc, b, bdesc, beta, c, cdesc, d,
        ddesc, algo, workspace, workspace_size_in_bytes, stream,
    ):  # fmt: skip
        self.known(light_handle)
        found, *seen, flags, sizes = self.asked(
            compute_desc, adesc, bdesc, cdesc, ddesc
        )
        if ctypes.c_uint64.from_address(algo).value != 0xA160:
            raise Misuse("cublasLt: an algorithm that it did not choose")
        assumed = (ctypes.c_uint64 * 5).from_address(algo)[1:]
        for address, bytes, what in zip((a, b, c, d), assumed, "abcd", strict=True):
            if address % bytes:
                raise Misuse(f"cublasLt: {what} is not aligned to {bytes} bytes")
        if workspace_size_in_bytes < 64 * sum(sizes):
            self.refuse("too little work space")
        room = self.memory(workspace, workspace_size_in_bytes, "work space")
        if workspace % 256:
            raise Misuse("cublasLt: a work space is not aligned to 256 bytes")
        sums = KINDS[found.scale]
        size = np.dtype(sums).itemsize
        one, other = (
            np.frombuffer(ctypes.string_at(place, size), sums)[0]
            for place in (alpha, beta)
        )
        spans = [
            self.span(address, matrix, what) if other or what != "c" else None
            for address, matrix, what in zip((a, b, c, d), seen, "abcd", strict=True)
        ]  # what is times nothing is not read
        bias, epilogue = None, found.attributes.get(7, 1)
        behind = {2: relu, 32: gelu}.get(epilogue & ~5, lambda values: values)
        if epilogue not in (1, 2, 4, 6, 32, 36):
            self.refuse("an epilogue")
        if epilogue & 4:
            kind = np.dtype(KINDS[seen[2].type])
            if found.attributes[26] != seen[2].type or kind.kind == "c":
                self.refuse("a vector of another type")
            address, length = found.attributes[8], sizes[0] * kind.itemsize
            held = self.memory(address, length, "vector")

            def bias():
                self.driver.still(held, "cublasLt (vector)")
                raw = (ctypes.c_char * length).from_address(near(address))
                return widened(np.frombuffer(raw, kind))[:, None].astype(sums)

        scales = []
        for side in range(2 if seen[0].type in EIGHT else 0):
            mode, count = found.attributes.get(31 + side, 0), sizes[side]
            count = {0: 1, 3: count}[mode]
            place = found.attributes[17 + side]
            scales.append(self.vector(place, count, np.float32, "scale"))

        mark = found.attributes.get(20)
        if mark is not None:
            mark = self.vector(mark, 1, np.float32, "scale of the result")

        def do():
            self.scribble(workspace, workspace_size_in_bytes, room)
            factors = []
            for span, flag, matrix in zip(spans[:2], flags, seen[:2], strict=True):
                values = span()
                if matrix.type in EIGHT:
                    values = EIGHT[matrix.type][values]
                values = widened(values).astype(sums)
                if found.compute == 77:
                    values = in_tf32(values)
                factors.append(values.swapaxes(1, 2) if flag else values)
            result = one * (factors[0] @ factors[1])
            if scales:
                result = result * scales[0]()[:, None] * scales[1]()[None, :]
            if other:
                result = result + other * widened(spans[2]()).astype(sums)
            result = behind(result if bias is None else result + bias())
            if mark is not None:
                result = result * mark()
            spans[3]()[...] = stored(result, seen[3].type)

        self.driver.put(stream, Work(do, what="cublasLt"))


def eight_bits(exponent, middle, infinite):
    """The numbers of eight bits with so many for the exponent, and which is one there."""
    digits = 7 - exponent
    found = np.zeros(256, np.float32)
    for n in range(256):
        e, m = (n & 127) >> digits, n & (1 << digits) - 1
        value = (m + (1 << digits) * (e > 0)) * 2.0 ** (max(e, 1) - middle - digits)
        if infinite and e == (1 << exponent) - 1:
            value = np.nan if m else np.inf
        elif n & 127 == 127 and not infinite:
            value = np.nan
        found[n] = -value if n > 127 else value
    return found


def nearest(values, table):
    """The bits of the nearest number, of two the even one, and of none beyond them."""
    known = table[:128][np.isfinite(table[:128])].astype(np.float64)
    wide = np.abs(values.astype(np.float64)).clip(max=known[-1])
    above = np.searchsorted(known, np.nan_to_num(wide)).clip(1, len(known) - 1)
    low, high = wide - known[above - 1], known[above] - wide
    up = (high < low) | ((high == low) & (above % 2 == 0))
    bits = np.where(up, above, above - 1)
    bits = np.where(np.isnan(wide), 127, bits)
    return (bits | np.signbit(values) << 7).astype(np.uint8)


EIGHT = {28: eight_bits(4, 7, False), 29: eight_bits(5, 15, True)}


def relu(values):
    """What a product's epilogue makes of it."""
    return np.maximum(values, 0)


def gelu(values):
    """The same, by the hyperbolic tangent."""
    wide = values.astype(np.float64)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    return (wide / 2 * (1 + np.tanh(inner))).astype(values.dtype)


def widened(values):
    """Numbers that NumPy calculates with."""
    if values.dtype != np.uint16:
        return values
    return (values.astype(np.uint32) << 16).view(np.float32)


def stored(values, kind):
    """Numbers as a matrix of a type holds them."""
    if kind in EIGHT:
        return nearest(values, EIGHT[kind])
    if kind != 14:
        return values
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def in_tf32(values):
    """Values of ten binary digits after the point, rounded to the nearest."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)
