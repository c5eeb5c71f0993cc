"""What the processor can do, by PyTorch's names for it."""

import functools
import os
from types import MappingProxyType

# PyTorch's name of an instruction set -> Linux's, where they differ by more than `_`.
X86 = {
    "sse3": "pni",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "fma3": "fma",
    "sha": "sha_ni",
    "clflush": "clflush",
    "avx512_f": "avx512f",
    "avx512_cd": "avx512cd",
    "avx512_dq": "avx512dq",
    "avx512_bw": "avx512bw",
    "avx512_vl": "avx512vl",
    "avx512_ifma": "avx512ifma",
    "avx512_vbmi": "avx512vbmi",
    "avx512_4fmaps": "avx512_4fmaps",
    "avx512_4vnniw": "avx512_4vnniw",
}
SAME = """
    sse sse2 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx_vnni_int8 avx_vnni_int16
    avx_ne_convert avx512_vbmi2 avx512_bitalg avx512_vpopcntdq avx512_vnni avx512_bf16
    avx512_fp16 avx512_vp2intersect avx10_1 avx10_2 amx_tile amx_int8 amx_bf16 amx_fp16
    bmi2 popcnt f16c fma4 aes clflushopt clwb
""".split()
ARM = {"neon": "asimd", "fp16_arith": "asimdhp", "dot": "asimddp", "rdm": "asimdrdm"}
ARM_SAME = "bf16 i8mm sve sve2 sme aes sha1 sha2 crc32 atomics".split()
PROCESSORS = "/sys/devices/system/cpu"


def _texts(folder, start, *names):
    """What files of the folders whose names start so say; without `pathlib`'s imports."""
    for one in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if one.startswith(start):
            try:
                yield [_text(f"{folder}/{one}/{name}").strip() for name in names]
            except OSError:
                continue


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.cache
def _fields():
    """The first processor's lines of Linux; none elsewhere."""
    try:
        text = _text("/proc/cpuinfo").partition("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


@functools.cache
def features():
    """Linux's names of the processor's instruction sets."""
    fields = _fields()
    return frozenset((fields.get("flags") or fields.get("Features") or "").split())


def _caches():
    """The sizes in bytes of the first processor's own caches."""
    found = {}
    caches = f"{PROCESSORS}/cpu0/cache"
    for level, kind, size in _texts(caches, "index", "level", "type", "size"):
        name = {"1Data": "l1d_cache_size", "2Unified": "l2_cache_size"}.get(
            level + kind
        )
        if name:
            found[name] = int(size.rstrip("K")) * 1024
    return found


def _number(path):
    """How many different numbers the processors have in a file of theirs."""
    found = _texts(PROCESSORS, "cpu", f"topology/{path}")
    return max(1, len({number for (number,) in found}))


@functools.cache
def get_capabilities():
    """The processor's architecture, instruction sets, caches and cores.

    Returns:
        a mapping that cannot be written, with PyTorch's names.

    >>> import rushlight as rl
    >>> rl.cpu.get_capabilities()["num_logical_cores"] >= 1
    True
    """
    import platform  # brings `re`, which not every program needs

    arm = platform.machine() in ("aarch64", "arm64")
    named, same = (ARM, ARM_SAME) if arm else (X86, SAME)
    flags = features()
    found = {name: name in flags for name in same}
    found |= {name: other in flags for name, other in named.items()}
    found |= _caches()
    fields = _fields()
    return MappingProxyType(
        {
            **found,
            "architecture": "aarch64" if arm else "x86_64",
            "cpu_name": fields.get("model name", platform.processor()),
            "num_logical_cores": os.cpu_count() or 1,
            "num_physical_cores": _number("core_cpus_list"),
            "num_sockets": _number("physical_package_id"),
        }
    )


def has(*names):
    """Whether the processor has all of some instruction sets.

    Args:
        names: PyTorch's names.
    """
    known = get_capabilities()
    return all(known.get(name, False) for name in names)
