"""How lines of a transform lie: the other dimensions as two loops."""


def batches(source, out, dim):
    """The other dimensions as two, each ``(size, step in source, step in out)``.

    None where more than two are needed.
    """
    rest = [
        (out.stride(d), out.shape[d], source.stride(d))
        for d in range(out.ndim)
        if d != dim and out.shape[d] != 1
    ]
    rest.sort(reverse=True)
    merged = []
    for step, size, other in rest:
        if merged:
            last_size, last_other, last_step = merged[-1]
            if last_step == step * size and last_other == other * size:
                merged[-1] = last_size * size, other, step
                continue
        merged.append((size, other, step))
    if len(merged) > 2:
        return None
    return [(1, 0, 0)] * (2 - len(merged)) + merged
