"""Random numbers of the card beside those of torch.cuda, seed by seed."""

import rushlight as rl
from tools.first_hour.findings import put


def main(args):
    import torch

    told = {}

    def both(name, f):
        try:
            rl.cuda.manual_seed(7)
            torch.cuda.manual_seed(7)
            mine, theirs = f(rl).cpu().numpy(), f(torch).cpu().numpy()
            wrong = int((mine != theirs).sum())
            told[name] = f"{wrong} of {mine.size} differ" + (
                f", worst {abs(mine.astype('f8') - theirs.astype('f8')).max():.3g}"
                if wrong
                else ""
            )
        except Exception as error:
            told[name] = f"{type(error).__name__}: {str(error)[:200]}"
        print(f"{name:28}", told[name], flush=True)

    for n in (7, 1000, 1 << 20, 10_000_001):
        both(f"rand {n}", lambda t, n=n: t.rand(n, device="cuda"))
        both(f"randn {n}", lambda t, n=n: t.randn(n, device="cuda"))
        both(f"randint {n}", lambda t, n=n: t.randint(0, 1000, (n,), device="cuda"))
        both(
            f"dropout f32 {n}",
            lambda t, n=n: t.nn.functional.dropout(t.ones(n, device="cuda"), 0.3),
        )
        both(
            f"dropout f16 {n}",
            lambda t, n=n: t.nn.functional.dropout(
                t.ones(n, device="cuda", dtype=t.float16), 0.3
            ).float(),
        )
        both(
            f"bernoulli {n}",
            lambda t, n=n: t.bernoulli(t.full((n,), 0.4, device="cuda")),
        )
    for n in (100, 40_000, 1 << 20):
        both(f"randperm {n}", lambda t, n=n: t.randperm(n, device="cuda"))
    both(
        "multinomial",
        lambda t: t.multinomial(t.arange(1, 101, device="cuda").float(), 50),
    )
    both(
        "multinomial replaced",
        lambda t: t.multinomial(t.arange(1, 101, device="cuda").float(), 500, True),
    )
    both("exponential", lambda t: t.empty(100000, device="cuda").exponential_())
    both("normal f64", lambda t: t.randn(100000, device="cuda", dtype=t.float64))
    put(args.out, "random", told)
