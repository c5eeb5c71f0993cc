"""Sorts, selections, sums into places and counts on a card, beside the host's."""

from tools.first_hour.findings import put

SIZES = 17, 255, 256, 257, 2048, 2049, 4096, 4097, 100_003, 1 << 22
KINDS = "float32", "bfloat16", "float64", "int64", "int16", "uint8", "bool"
TURNS = 3  # a race shows itself in some


def numbers(rl, kind, size, spread):
    """Elements with many equals, NaN and zeros of both signs where there are such."""
    x = rl.randint(-spread, spread, (2, size)).to(getattr(rl, kind))
    if x.is_floating_point():
        x[0, ::7], x[0, 1::11], x[1, ::5] = float("nan"), -0.0, -float("inf")
    return x


def alike(rl, found, wanted):
    """Whether a card's tensors are the host's, NaN where there is one."""
    pairs = zip(found, wanted, strict=True)
    return all(
        rl.equal(a, b) or rl.allclose(a, b, rtol=0, atol=0, equal_nan=True)
        for a, b in ((a.cpu(), b) for a, b in pairs)
    )


def sorts(rl, kind, size):
    """Whether rows are sorted stably, and their first elements found, both ways."""
    for spread in (2, 1 << 20):  # few digits, and many
        x = numbers(rl, kind, size, spread)
        there, k = x.cuda(), min(size, 50)
        for down in (False, True):
            wanted = rl.sort(x, stable=True, descending=down)
            first = [part[:, :k] for part in wanted]
            for _ in range(TURNS):
                if not alike(rl, rl.sort(there, stable=True, descending=down), wanted):
                    return f"sort {kind} {size} spread {spread} descending {down}"
                if kind == "bool":
                    continue
                if not alike(rl, rl.topk(there, k, 1, down), first):
                    return f"topk {kind} {size} spread {spread} largest {down}"
    return ""


def sums(rl, kind, size):
    """Whether sums into few and many places, and what is put there, are the host's."""
    for places in (3, 1000, size):
        index = rl.randint(0, places, (size,))
        x = numbers(rl, kind, size, 9)[0].nan_to_num(0, 0, 0)
        into = rl.zeros(places, dtype=x.dtype)
        for name in ("scatter_add", "index_add", "scatter", "index_copy"):

            def call(a, i, s, name=name):
                return getattr(a, name)(0, i, s)

            wanted = call(into, index, x)  # whole numbers: exact in any order
            small = kind == "bfloat16" and "add" in name
            found = call(into.cuda(), index.cuda(), x.cuda()).cpu()
            if not small and not rl.equal(found, wanted):
                return f"{name} {kind} {size} into {places}"
        if kind == "int64":
            if not rl.equal(rl.bincount(index.cuda()).cpu(), rl.bincount(index)):
                return f"bincount {size} of {places}"
    x = rl.randn(size)
    if not rl.equal(rl.histc(x.cuda(), 50, -2, 2).cpu(), rl.histc(x, 50, -2, 2)):
        return f"histc {size}"
    return ""


def main(args):
    """All kinds and sizes; the first that differs of each."""
    import rushlight as rl

    told = {}
    for check in (sorts, sums):
        for kind in KINDS:
            if kind == "bool" and check is sums:
                continue
            wrong = [check(rl, kind, size) for size in SIZES]
            name = f"{check.__name__} {kind}"
            told[name] = next((text for text in wrong if text), "as the host")
            print(name, told[name], flush=True)
    put(args.out, "orders", told)
