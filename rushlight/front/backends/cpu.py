"""Host memory and host kernels."""


def get_cpu_capability():
    """The widest vectors that kernels use: AVX512, AVX2, NEON or DEFAULT."""
    import platform

    if platform.machine() in ("aarch64", "arm64"):
        return "NEON"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next(
                (line for line in file if line.startswith("flags")), ""
            ).split()
    except OSError:
        return "DEFAULT"
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= set(flags):
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= set(flags) else "DEFAULT"
