"""NVIDIA's libraries without a card: they check what they are asked, and do it on the host.

Each stands in for a module of ``nvmath.bindings``, over the imagined driver of
`tests.cuda.driver`. What is asked is looked at when it is asked: handles, the context, the
queue, and whether every matrix lies in memory of the card's, with the work space that the
library had said. The work itself (SciPy's and NumPy's) waits in the queue like a kernel.
"""

from __future__ import annotations

import ctypes
import inspect
from importlib import import_module
from types import SimpleNamespace

import numpy as np

from tests.cuda.driver import Misuse, Work, near

KINDS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
NUMBERS = {0: "s", 1: "d", 4: "c", 5: "z"}  # of cudaDataType
INVALID = {"cusolver": 3, "cublas": 7, "cufft": 4}
REAL = {"s": np.float32, "d": np.float64, "c": np.float32, "z": np.float64}


class Late:
    """A module that is imported when it is first asked: SciPy may not be there."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        return getattr(import_module(self._name), name)


blas, lapack = Late("scipy.linalg.blas"), Late("scipy.linalg.lapack")


class LibraryError(Exception):
    """What the bindings raise: a text, and the library's code."""

    def __init__(self, status, text=""):
        super().__init__(f"status {status}: {text}" if text else f"status {status}")
        self.status = status


class Fake:
    """What all of them share.

    Args:
        driver: the imagined one.
    """

    name = ""

    def __init__(self, driver):
        self.driver = driver
        self.calls: list = []
        self.faults: dict = {}
        self.handles: dict = {}
        self.made = 0

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or not inspect.ismethod(found):
            return found
        if getattr(Fake, name, None) is not None and name not in PUBLIC:
            return found
        calls, faults, lock = self.calls, self.faults, self.driver.lock

        def called(*args, **facts):
            with lock:
                calls.append((name, args))
                if faults.get(name):
                    raise LibraryError(faults.pop(name), "injected")
                return found(*args, **facts)

        return called

    def fail(self, name, status):
        """The next call of a name ends with a status."""
        self.faults[name] = status

    def names(self, *only):
        """The names of the calls so far, or those of some."""
        return [name for name, _ in self.calls if not only or name in only]

    def create(self):
        context = self.driver.need_context()
        self.made += 1
        number = 0x7000_0000 + 16 * self.made
        self.handles[number] = SimpleNamespace(context=context, stream=None)
        return number

    def destroy(self, handle):
        self.known(handle)
        del self.handles[handle]

    def set_stream(self, handle, stream_id):
        self.known(handle).stream = stream_id
        self.driver.queue(stream_id)

    # -- inside ------------------------------------------------------------------------

    def refuse(self, why):
        """Ends a call as the library does for arguments that it does not like."""
        raise LibraryError(INVALID[self.name], why)

    def known(self, handle):
        """What a handle stands for, in the context that is current."""
        found = self.handles.get(handle)
        if found is None:
            raise Misuse(f"{handle:#x} is no handle of {self.name}")
        if self.driver.need_context() is not found.context:
            raise Misuse(f"a handle of {self.name} is used in another context")
        return found

    def memory(self, address, n_bytes, what):
        """The card's memory that a span lies in."""
        if not n_bytes:
            return None
        found = self.driver.holder(address, n_bytes, (self.driver.device,))
        if found is None:
            raise Misuse(f"{what}: {n_bytes} bytes at {address:#x} are not on a card")
        return found

    def scribble(self, address, n_bytes, held):
        """Writes over a work space, as a library does that works in it."""
        if held is not None:
            self.driver.still(held, f"{self.name} (work space)")
            ctypes.memset(near(address), 0xA5, n_bytes)

    def matrix(self, address, rows, columns, lead, letter, what):
        """Checks a matrix by columns; what gives its elements when the work is done."""
        kind = np.dtype(KINDS.get(letter, letter))
        if address % kind.itemsize:
            raise Misuse(f"{self.name} ({what}): {address:#x} is no place of {kind}")
        if lead < max(rows, 1) or rows < 0 or columns < 0:
            self.refuse(f"{what}: {rows} rows {lead} apart")
        length = ((columns - 1) * lead + rows) * kind.itemsize if rows * columns else 0
        held = self.memory(address, length, what)

        def elements():
            if held is None:
                return np.empty((rows, columns), kind, order="F")
            self.driver.still(held, f"{self.name} ({what})")
            raw = (ctypes.c_char * length).from_address(near(address))
            flat = np.frombuffer(raw, kind)
            steps = kind.itemsize, lead * kind.itemsize
            return np.lib.stride_tricks.as_strided(flat, (rows, columns), steps)

        return elements

    def vector(self, address, count, letter, what):
        """The same of a vector."""
        found = self.matrix(address, count, 1, max(count, 1), letter, what)
        return lambda: found()[:, 0]

    def each(self, address, count, what):
        """Addresses that lie on the card; what gives them when the work is done."""
        held = self.vector(address, count, np.int64, what)
        return lambda: [int(place) for place in held()]

    def now(self, address, *sizes):
        """A matrix that is looked for as the work is done."""
        return self.matrix(address, *sizes)()

    def later(self, handle, do):
        """Puts work into a handle's queue."""
        stream = self.known(handle).stream
        if stream is None:
            raise Misuse(f"{self.name}: no queue was named")
        self.driver.put(stream, Work(do, what=self.name))


PUBLIC = ("create", "destroy", "set_stream")


class Cusolver(Fake):
    """``nvmath.bindings.cusolverDn``."""

    name = "cusolver"
    module = "cusolverDn"

    def __init__(self, driver):
        super().__init__(driver)
        self.objects: set = set()
        self.used = None  # the work space of the next routine

    def room(self, rows, columns):
        """The elements of work space that a routine says it takes."""
        return 3 * rows + 5 * columns + 7

    def work(self, address, count, least, letter):
        """Checks the work space that a routine is given."""
        if count < least:
            self.refuse(f"a work space of {count} where {least} was said")
        self.matrix(address, count, 1, max(count, 1), letter, "work space")
        n_bytes = count * np.dtype(KINDS.get(letter, letter)).itemsize
        self.used = address, n_bytes, self.memory(address, n_bytes, "work space")

    def later(self, handle, do):
        used, self.used = self.used, None

        def work():
            if used is not None:
                self.scribble(*used)
            do()

        super().later(handle, work)

    def new(self):
        self.made += 1
        number = 0x6000_0000 + 16 * self.made
        self.objects.add(number)
        return number

    def end(self, number):
        if number not in self.objects:
            raise Misuse("an object of cusolver's ends twice")
        self.objects.discard(number)

    def create_gesvdj_info(self):
        return self.new()

    def destroy_gesvdj_info(self, info):
        self.end(info)

    def create_syevj_info(self):
        return self.new()

    def destroy_syevj_info(self, info):
        self.end(info)

    def create_params(self):
        return self.new()

    def destroy_params(self, params):
        self.end(params)

    def xsytrs_buffer_size(
        self, handle, uplo, n, nrhs, data_type_a, a, lda, ipiv, data_type_b, b, ldb
    ):
        self.known(handle)
        return 16 * self.room(n, nrhs), 8

    def xsytrs(
        self, handle, uplo, n, nrhs, data_type_a, a, lda, ipiv, data_type_b, b, ldb,
        buffer_on_device, workspace_in_bytes_on_device, buffer_on_host,
        workspace_in_bytes_on_host, info,
    ):  # fmt: skip
        letter = NUMBERS[data_type_a]
        if data_type_b != data_type_a or workspace_in_bytes_on_host < 8:
            self.refuse("two types, or no room on the host")
        self.work(
            *(buffer_on_device, workspace_in_bytes_on_device),
            *(16 * self.room(n, nrhs), np.uint8),
        )
        factor = self.matrix(a, n, n, lda, letter, "a")
        pivots = self.vector(ipiv, n, np.int64, "ipiv")
        right = self.matrix(b, n, nrhs, ldb, letter, "b")
        code = self.vector(info, 1, np.int32, "info")
        solve = getattr(lapack, letter + "sytrs", None)

        def do():
            places = pivots().astype(np.int32)
            if solve is not None:
                found, _ = solve(factor(), places - 0, right(), lower=uplo == 0)
            else:
                found = np.linalg.solve(_from_ldl(factor(), places), right())
            right()[...] = found
            code()[0] = 0

        self.later(handle, do)

    def xgeev_buffer_size(
        self, handle, params, jobvl, jobvr, n, data_type_a, a, lda, data_type_w, w,
        data_type_vl, vl, ldvl, data_type_vr, vr, ldvr, compute_type,
    ):  # fmt: skip
        self.known(handle)
        return 16 * self.room(n, n), 64

    def xgeev(
        self, handle, params, jobvl, jobvr, n, data_type_a, a, lda, data_type_w, w,
        data_type_vl, vl, ldvl, data_type_vr, vr, ldvr, compute_type, buffer_on_device,
        workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host, info,
    ):  # fmt: skip
        letter = NUMBERS[data_type_a]
        wide = {"s": "c", "d": "z"}.get(letter, letter)
        kinds = data_type_vl, data_type_vr, compute_type
        if set(kinds) != {data_type_a} or NUMBERS[data_type_w] != wide:
            self.refuse("types that do not go together")
        if params not in self.objects or jobvl or workspace_in_bytes_on_host < 64:
            self.refuse("options, left vectors, or no room on the host")
        self.work(
            *(buffer_on_device, workspace_in_bytes_on_device),
            *(16 * self.room(n, n), np.uint8),
        )
        given = self.matrix(a, n, n, lda, letter, "a")
        values = self.vector(w, n, wide, "w")
        right = self.matrix(vr, n, n, ldvr, letter, "vr")
        code = self.vector(info, 1, np.int32, "info")

        def do():
            found = getattr(lapack, letter + "geev")(given(), compute_vl=0)
            *parts, _, vectors, status = found
            values()[...] = parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]
            if jobvr:
                right()[...] = vectors
            given()[...] = np.nan
            code()[0] = status

        self.later(handle, do)


def _from_ldl(packed, pivots):
    """The symmetric matrix of LAPACK's factors in the lower triangle."""
    n = len(pivots)
    k = 0
    middle = np.diag(np.diag(packed)).astype(packed.dtype)
    lower = np.eye(n, dtype=packed.dtype)
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        part = np.eye(n, dtype=packed.dtype)
        part[k + step :, k : k + step] = packed[k + step :, k : k + step]
        if step == 2:
            middle[k + 1, k] = middle[k, k + 1] = packed[k + 1, k]
        row, other = k + step - 1, abs(pivots[k]) - 1
        swap = np.eye(n, dtype=packed.dtype)
        swap[[row, other]] = swap[[other, row]]
        lower = lower @ swap @ part
        k += step
    return lower @ middle @ lower.T


def _legacy(letter):
    """The routines of one letter, as methods."""
    kind, real = letter, REAL[letter]

    def measured(name, *names):
        def size(self, handle, *args):
            if len(args) != len(names):
                raise TypeError(f"{name} takes {len(names)} arguments")
            self.known(handle)
            given = dict(zip(names, args, strict=True))
            rows = given.get("m", given.get("n"))
            return self.room(rows, given.get("n", 0))

        size.__signature__ = _signature(("handle", *names))
        return size

    def potrf(self, handle, uplo, n, a, lda, workspace, lwork, dev_info):
        self.work(workspace, lwork, self.room(n, n), kind)
        given = self.matrix(a, n, n, lda, kind, "a")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            found, status = getattr(lapack, kind + "potrf")(
                given(), lower=uplo == 0, clean=0
            )
            given()[...] = found
            code()[0] = status

        self.later(handle, do)

    def potri(self, handle, uplo, n, a, lda, work, lwork, dev_info):
        self.work(work, lwork, self.room(n, n), kind)
        given = self.matrix(a, n, n, lda, kind, "a")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            found, status = getattr(lapack, kind + "potri")(given(), lower=uplo == 0)
            given()[...] = found
            code()[0] = status

        self.later(handle, do)

    def potrs(self, handle, uplo, n, nrhs, a, lda, b, ldb, dev_info):
        factor = self.matrix(a, n, n, lda, kind, "a")
        right = self.matrix(b, n, nrhs, ldb, kind, "b")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            routine = getattr(lapack, kind + "potrs")
            right()[...], code()[0] = routine(factor(), right(), lower=uplo == 0)

        self.later(handle, do)

    def getrf(self, handle, m, n, a, lda, workspace, dev_ipiv, dev_info):
        self.work(workspace, self.room(m, n), self.room(m, n), kind)
        given = self.matrix(a, m, n, lda, kind, "a")
        pivots = self.vector(dev_ipiv, min(m, n), np.int32, "dev_ipiv")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            found, places, status = getattr(lapack, kind + "getrf")(given())
            given()[...], pivots()[...], code()[0] = found, places + 1, status

        self.later(handle, do)

    def getrs(self, handle, trans, n, nrhs, a, lda, dev_ipiv, b, ldb, dev_info):
        factor = self.matrix(a, n, n, lda, kind, "a")
        pivots = self.vector(dev_ipiv, n, np.int32, "dev_ipiv")
        right = self.matrix(b, n, nrhs, ldb, kind, "b")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            routine = getattr(lapack, kind + "getrs")
            right()[...], code()[0] = routine(
                factor(), pivots() - 1, right(), trans=trans
            )

        self.later(handle, do)

    def geqrf(self, handle, m, n, a, lda, tau, workspace, lwork, dev_info):
        self.work(workspace, lwork, self.room(m, n), kind)
        given = self.matrix(a, m, n, lda, kind, "a")
        factors = self.vector(tau, min(m, n), kind, "tau")
        code = self.vector(dev_info, 1, np.int32, "dev_info")

        def do():
            found, own, _, status = getattr(lapack, kind + "geqrf")(given())
            given()[...], factors()[...], code()[0] = found, own, status

        self.later(handle, do)

    def orgqr(self, handle, m, n, k, a, lda, tau, work, lwork, info):
        self.work(work, lwork, self.room(m, n), kind)
        given = self.matrix(a, m, n, lda, kind, "a")
        factors = self.vector(tau, k, kind, "tau")
        code = self.vector(info, 1, np.int32, "info")
        name = kind + ("orgqr" if kind in "sd" else "ungqr")

        def do():
            found, _, status = getattr(lapack, name)(given(), factors())
            given()[...], code()[0] = found, status

        self.later(handle, do)

    def ormqr(
        self, handle, side, trans, m, n, k, a, lda, tau, c, ldc, work, lwork, dev_info
    ):
        self.work(work, lwork, self.room(m, n), kind)
        if trans == (2 if kind in "sd" else 1):
            self.refuse("a form that the routine does not have")
        order = n if side else m
        packed = self.matrix(a, order, k, lda, kind, "a")
        factors = self.vector(tau, k, kind, "tau")
        right = self.matrix(c, m, n, ldc, kind, "c")
        code = self.vector(dev_info, 1, np.int32, "dev_info")
        name = kind + ("ormqr" if kind in "sd" else "unmqr")

        def do():
            found, _, status = getattr(lapack, name)(
                "LR"[side], "NTC"[trans], packed(), factors(), right(), 64 * (m + n)
            )
            right()[...], code()[0] = found, status

        self.later(handle, do)

    def sytrf(self, handle, uplo, n, a, lda, ipiv, work, lwork, info):
        self.work(work, lwork, self.room(n, n), kind)
        given = self.matrix(a, n, n, lda, kind, "a")
        pivots = self.vector(ipiv, n, np.int32, "ipiv")
        code = self.vector(info, 1, np.int32, "info")

        def do():
            found, places, status = getattr(lapack, kind + "sytrf")(
                given(), lower=uplo == 0
            )
            given()[...], pivots()[...], code()[0] = found, places, status

        self.later(handle, do)

    def syevd(self, handle, jobz, uplo, n, a, lda, w, work, lwork, info):
        self.work(work, lwork, self.room(n, n), kind)
        given = self.matrix(a, n, n, lda, kind, "a")
        values = self.vector(w, n, real, "w")
        code = self.vector(info, 1, np.int32, "info")
        name = kind + ("syevd" if kind in "sd" else "heevd")

        def do():
            found, vectors, status = getattr(lapack, name)(
                given(), compute_v=jobz, lower=uplo == 0
            )
            values()[...], code()[0] = found, status
            given()[...] = vectors if jobz else np.nan

        self.later(handle, do)

    def gesvdj(
        self, handle, jobz, econ, m, n, a, lda, s, u, ldu, v, ldv, work, lwork, info,
        params,
    ):  # fmt: skip
        self.work(work, lwork, self.room(m, n), kind)
        if params not in self.objects:
            raise Misuse("options of cusolver's that are not there")
        least = min(m, n)
        tall, wide = (least, least) if econ else (m, n)
        given = self.matrix(a, m, n, lda, kind, "a")
        values = self.vector(s, least, real, "s")
        left = self.matrix(u, m, tall if jobz else 0, ldu, kind, "u")
        right = self.matrix(v, n, wide if jobz else 0, ldv, kind, "v")
        code = self.vector(info, 1, np.int32, "info")

        def do():
            found, own, others, status = getattr(lapack, kind + "gesdd")(
                given(), full_matrices=not econ
            )
            values()[...], code()[0] = own, status
            if jobz:
                left()[...], right()[...] = found, others.conj().T
            given()[...] = np.nan

        self.later(handle, do)

    def potrf_batched(self, handle, uplo, n, aarray, lda, info_array, batch_size):
        begins = self.each(aarray, batch_size, "aarray")
        codes = self.vector(info_array, batch_size, np.int32, "info_array")

        def do():
            for k, place in enumerate(begins()):
                given = self.now(place, n, n, lda, kind, "a")
                given[...], codes()[k] = getattr(lapack, kind + "potrf")(
                    given, lower=uplo == 0, clean=0
                )

        self.later(handle, do)

    def syevj_batched(
        self, handle, jobz, uplo, n, a, lda, w, work, lwork, info, params, batch_size
    ):
        self.work(work, lwork, self.room(n, n), kind)
        if params not in self.objects:
            raise Misuse("options of cusolver's that are not there")
        given = self.matrix(a, n, n * batch_size, lda, kind, "a")
        values = self.matrix(w, n, batch_size, n, real, "w")
        codes = self.vector(info, batch_size, np.int32, "info")
        name = kind + ("syevd" if kind in "sd" else "heevd")

        def do():
            for k in range(batch_size):
                one = given()[:, k * n : k * n + n]
                found, vectors, status = getattr(lapack, name)(
                    one, compute_v=jobz, lower=uplo == 0
                )
                values()[:, k], codes()[k] = found, status
                one[...] = vectors if jobz else np.nan

        self.later(handle, do)

    def gesvdj_batched(
        self, handle, jobz, m, n, a, lda, s, u, ldu, v, ldv, work, lwork, info, params,
        batch_size,
    ):  # fmt: skip
        self.work(work, lwork, self.room(m, n), kind)
        if params not in self.objects:
            raise Misuse("options of cusolver's that are not there")
        if max(m, n) > 32:
            self.refuse(f"matrices of {m} by {n} in a batch")
        least = min(m, n)
        given = self.matrix(a, m, n * batch_size, lda, kind, "a")
        values = self.matrix(s, least, batch_size, least, real, "s")
        left = self.matrix(u, m, m * batch_size, ldu, kind, "u")
        right = self.matrix(v, n, n * batch_size, ldv, kind, "v")
        codes = self.vector(info, batch_size, np.int32, "info")

        def do():
            for k in range(batch_size):
                one = given()[:, k * n : k * n + n]
                found, own, others, status = getattr(lapack, kind + "gesdd")(one)
                values()[:, k], codes()[k] = own, status
                if jobz:
                    left()[:, k * m : k * m + m] = found
                    right()[:, k * n : k * n + n] = others.conj().T
                one[...] = np.nan

        self.later(handle, do)

    syevj_name = "syevj" if letter in "sd" else "heevj"
    orgqr_name = "orgqr" if letter in "sd" else "ungqr"
    ormqr_name = "ormqr" if letter in "sd" else "unmqr"
    syevd_name = "syevd" if letter in "sd" else "heevd"
    found = {
        "potrf": potrf, "potri": potri, "potrs": potrs, "getrf": getrf, "getrs": getrs,
        "geqrf": geqrf, orgqr_name: orgqr, ormqr_name: ormqr, "sytrf": sytrf,
        syevd_name: syevd, "gesvdj": gesvdj, "potrf_batched": potrf_batched,
        f"{syevj_name}_batched": syevj_batched, "gesvdj_batched": gesvdj_batched,
        f"{syevj_name}_batched_buffer_size": measured(
            *("syevj", "jobz", "uplo", "n", "a", "lda", "w", "params", "batch_size")
        ),
        "gesvdj_batched_buffer_size": measured(
            *("gesvdj", "jobz", "m", "n", "a", "lda", "s", "u", "ldu", "v", "ldv"),
            *("params", "batch_size"),
        ),
        "potrf_buffer_size": measured("potrf", "uplo", "n", "a", "lda"),
        "potri_buffer_size": measured("potri", "uplo", "n", "a", "lda"),
        "getrf_buffer_size": measured("getrf", "m", "n", "a", "lda"),
        "geqrf_buffer_size": measured("geqrf", "m", "n", "a", "lda"),
        "sytrf_buffer_size": measured("sytrf", "n", "a", "lda"),
        f"{orgqr_name}_buffer_size": measured(
            "orgqr", "m", "n", "k", "a", "lda", "tau"
        ),
        f"{ormqr_name}_buffer_size": measured(
            "ormqr", "side", "trans", "m", "n", "k", "a", "lda", "tau", "c", "ldc"
        ),
        f"{syevd_name}_buffer_size": measured(
            "syevd", "jobz", "uplo", "n", "a", "lda", "w"
        ),
        "gesvdj_buffer_size": measured(
            "gesvdj", "jobz", "econ", "m", "n", "a", "lda", "s", "u", "ldu", "v", "ldv",
            "params",
        ),
    }  # fmt: skip
    return {letter + name: method for name, method in found.items()}


def _signature(names):
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(n, kind) for n in ("self", *names)])


for _letter in KINDS:
    for _name, _method in _legacy(_letter).items():
        setattr(Cusolver, _name, _method)


class Cublas(Fake):
    """``nvmath.bindings.cublas``."""

    name = "cublas"
    module = "cublas"


def _trsm(letter):
    def trsm(self, handle, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb):
        order = n if side else m
        factor = self.matrix(a, order, order, lda, letter, "a")
        right = self.matrix(b, m, n, ldb, letter, "b")
        kind = np.dtype(KINDS[letter])
        scale = np.frombuffer(ctypes.string_at(alpha, kind.itemsize), kind)[0]

        def do():
            right()[...] = getattr(blas, letter + "trsm")(
                *(scale, factor(), right()),
                side=side, lower=uplo == 0, trans_a=trans, diag=diag,
            )  # fmt: skip

        self.later(handle, do)

    return trsm


def _batched(letter):
    """cuBLAS's routines for many matrices, by name: what went wrong is the host's."""
    kind = np.dtype(KINDS[letter])

    def well(info):
        ctypes.c_int.from_address(info).value = 0

    def getrf(self, handle, n, a, lda, p, info, batch_size):
        begins = self.each(a, batch_size, "a")
        pivots = self.matrix(p, n, batch_size, n, np.int32, "p")
        codes = self.vector(info, batch_size, np.int32, "info")

        def do():
            for k, place in enumerate(begins()):
                given = self.now(place, n, n, lda, letter, "a")
                found, places, status = getattr(lapack, letter + "getrf")(given)
                given[...], pivots()[:, k], codes()[k] = found, places + 1, status

        self.later(handle, do)

    def getrs(
        self, handle, trans, n, nrhs, aarray, lda, dev_ipiv, barray, ldb, info,
        batch_size,
    ):  # fmt: skip
        begins = self.each(aarray, batch_size, "aarray")
        others = self.each(barray, batch_size, "barray")
        pivots = self.matrix(dev_ipiv, n, batch_size, n, np.int32, "dev_ipiv")
        well(info)

        def do():
            for k, (one, other) in enumerate(zip(begins(), others(), strict=True)):
                factor = self.now(one, n, n, lda, letter, "a")
                right = self.now(other, n, nrhs, ldb, letter, "b")
                routine = getattr(lapack, letter + "getrs")
                right[...], _ = routine(factor, pivots()[:, k] - 1, right, trans=trans)

        self.later(handle, do)

    def geqrf(self, handle, m, n, aarray, lda, tau_array, info, batch_size):
        begins = self.each(aarray, batch_size, "aarray")
        factors = self.each(tau_array, batch_size, "tau_array")
        well(info)

        def do():
            for one, other in zip(begins(), factors(), strict=True):
                given = self.now(one, m, n, lda, letter, "a")
                own = self.now(other, min(m, n), 1, max(min(m, n), 1), letter, "tau")
                found, made, _, _ = getattr(lapack, letter + "geqrf")(given)
                given[...], own[:, 0] = found, made

        self.later(handle, do)

    def trsm(
        self, handle, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, batch_count
    ):
        order = n if side else m
        begins = self.each(a, batch_count, "a")
        others = self.each(b, batch_count, "b")
        scale = np.frombuffer(ctypes.string_at(alpha, kind.itemsize), kind)[0]

        def do():
            for one, other in zip(begins(), others(), strict=True):
                factor = self.now(one, order, order, lda, letter, "a")
                right = self.now(other, m, n, ldb, letter, "b")
                right[...] = getattr(blas, letter + "trsm")(
                    *(scale, factor, right),
                    side=side, lower=uplo == 0, trans_a=trans, diag=diag,
                )  # fmt: skip

        self.later(handle, do)

    return {"getrf": getrf, "getrs": getrs, "geqrf": geqrf, "trsm": trsm}


for _letter in KINDS:
    setattr(Cublas, _letter + "trsm", _trsm(_letter))
    for _name, _method in _batched(_letter).items():
        setattr(Cublas, f"{_letter}{_name}_batched", _method)


class Cufft(Fake):
    """``nvmath.bindings.cufft``: plans are its handles."""

    name = "cufft"
    module = "cufft"

    def set_auto_allocation(self, plan, auto_allocate):
        self.known(plan).automatic = bool(auto_allocate)

    def make_plan_many64(
        self, plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type,
        batch,
    ):  # fmt: skip
        found = self.known(plan)
        if rank != 1 or n[0] < 1 or batch < 1 or not (istride and ostride):
            self.refuse("sizes")
        found.size, found.count, found.type = n[0], batch, type
        found.read, found.written = (istride, idist), (ostride, odist)
        found.room = 0 if found.automatic else 64 * n[0]
        found.area = None
        return found.room

    def set_work_area(self, plan, work_area):
        found = self.known(plan)
        found.area = self.memory(work_area, max(found.room, 1), "work area")
        found.place = work_area

    def run(self, plan, type, source, target, kinds, transform):
        """Puts a plan's transforms into its queue."""
        found = self.known(plan)
        if found.type != type:
            self.refuse("a plan of another type")
        if not found.automatic and found.area is None:
            raise Misuse("cufft: a plan without a work area runs")
        half = found.size // 2 + 1
        counts = [
            half if kind == "half" else found.size
            for kind in (kinds[0][0], kinds[1][0])
        ]
        views = []
        for address, count, (step, line), (_, kind) in zip(
            (source, target), counts, (found.read, found.written), kinds, strict=True
        ):
            item = np.dtype(kind).itemsize
            if "half" in (kinds[0][0], kinds[1][0]) and address % (
                item * (1 if np.dtype(kind).kind == "c" else 2)
            ):
                raise LibraryError(9, "unaligned data")
            length = ((count - 1) * step + (found.count - 1) * line + 1) * item
            held = self.memory(address, length, "data")
            views.append((held, address, length, kind, count, step, line, item))
        area = found.area

        def elements(held, address, length, kind, count, step, line, item):
            self.driver.still(held, "cufft")
            raw = (ctypes.c_char * length).from_address(near(address))
            flat = np.frombuffer(raw, kind)
            return np.lib.stride_tricks.as_strided(
                flat, (found.count, count), (line * item, step * item)
            )

        def do():
            if area is not None:
                self.scribble(found.place, found.room, area)
            given, result = (elements(*view) for view in views)
            result[...] = transform(given.copy(), found.size)
            if kinds[0][0] == "half":
                given[...] = np.nan  # as cuFFT may

        self.later(plan, do)


def _between(number, source, target, kind):
    def way(given, size, direction=-1):
        if kind == "half out":
            return np.fft.rfft(given, axis=1)
        if kind == "half in":
            return np.fft.irfft(given, size, axis=1) * size
        found = np.fft.fft if direction < 0 else np.fft.ifft
        return found(given, axis=1) * (1 if direction < 0 else size)

    places = {
        "whole": (("whole", source), ("whole", target)),
        "half out": (("whole", source), ("half", target)),
        "half in": (("half", source), ("whole", target)),
    }[kind]

    def both(self, plan, idata, odata, direction):
        if direction not in (-1, 1):
            self.refuse("a direction")
        self.run(
            *(plan, number, idata, odata, places),
            lambda given, size: way(given, size, direction),
        )

    def one(self, plan, idata, odata):
        self.run(plan, number, idata, odata, places, way)

    return both if kind == "whole" else one


for _name, _row in {
    "exec_c2c": (0x29, np.complex64, np.complex64, "whole"),
    "exec_z2z": (0x69, np.complex128, np.complex128, "whole"),
    "exec_r2c": (0x2A, np.float32, np.complex64, "half out"),
    "exec_d2z": (0x6A, np.float64, np.complex128, "half out"),
    "exec_c2r": (0x2C, np.complex64, np.float32, "half in"),
    "exec_z2d": (0x6C, np.complex128, np.float64, "half in"),
}.items():
    setattr(Cufft, _name, _between(*_row))
