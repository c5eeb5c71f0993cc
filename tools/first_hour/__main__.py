"""What a real NVIDIA card is asked: `python -m tools.first_hour STAGE ... --out DIR`.

sweep     operators of PyTorch's database on the card beside the host
train     LeNet and a small GPT, in float32, bfloat16 and float16, beside the host
random    random numbers beside those of torch.cuda
orders    sorts, selections, sums into places and counts beside the host's
suspects  what a card may refuse, or race on
timings   bandwidths, products, attention, launches, steps, beside torch on this card
profile   where the host's time goes in steps of a GPT
touch     a small tour of all kinds of kernels, for compute-sanitizer

`tools/first_hour/setup.sh` readies a bare machine.
"""

import argparse
import importlib
import os

STAGES = {
    "sweep": "sweep",
    "train": "training",
    "random": "numbers",
    "orders": "orders",
    "suspects": "suspects",
    "timings": "timings",
    "profile": "profile",
    "touch": "touch",
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="+", choices=STAGES)
    parser.add_argument("--out", default="first_hour", help="where findings are kept")
    parser.add_argument("--part", default="all", help="0 or 1: half of the sweep")
    parser.add_argument("--names", nargs="*", help="operators, suspects or parts")
    parser.add_argument("--most", type=int, default=3, help="samples of an operator")
    parser.add_argument("--compiled", action="store_true", help="sweep compiled, too")
    parser.add_argument("--limit", type=float, default=360, help="seconds of the sweep")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for stage in args.stages:
        importlib.import_module(f"tools.first_hour.{STAGES[stage]}").main(args)
