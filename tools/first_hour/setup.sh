#!/usr/bin/env bash
# Readies a bare machine that has a card, CUDA's PyTorch and gcc, and reaches no registry.
#
# Before, where registries are reached, in the project's root:
#   tools/first_hour/setup.sh pack      # fills .card/ with wheels and generated sources
# There, with .card/ beside the tree:
#   source tools/first_hour/setup.sh    # compiles, and sets the paths
#   python3 -m tools.first_hour sweep suspects train random timings profile --out DIR
#   compute-sanitizer --tool memcheck python3 -m tools.first_hour touch
set -uo pipefail
WORK=${WORK:-${TMPDIR:-/tmp}/first_hour}
mkdir -p "$WORK/site" "$WORK/cache" && chmod 700 "$WORK/cache"
export PYTHONPATH="$PWD:$WORK/site" RUSHLIGHT_CUDA=1 RUSHLIGHT_CACHE="$WORK/cache"
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

pack() {
    mkdir -p .card/whl
    for p in "llvmlite==0.50.0" expecttest "nvmath-python>=1,<2" "nvidia-cudnn-frontend>=1.14,<1.27"; do
        python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 \
            --implementation cp --platform manylinux_2_28_x86_64 \
            --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
            --platform manylinux2014_x86_64 -d .card/whl "$p"
    done
    git ls-files -o -i --exclude-standard rushlight | grep -v "\.so$\|__pycache__" |
        tar c -T - | xz -6 -T0 >.card/made.tar.xz
}

ready() {
    tar xJf .card/made.tar.xz
    python3 -m pip install -q --no-index --no-deps --no-compile --upgrade \
        --target "$WORK/site" .card/whl/*.whl &
    local include suffix blas
    include=$(python3 -c "import sysconfig; print(sysconfig.get_paths()['include'])")
    suffix=$(python3 -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
    find rushlight -name '*.c' -printf '%s %p\n' | sort -rn | cut -d' ' -f2 |
        xargs -P"$(nproc)" -I{} bash -c "f={}; gcc -shared -fPIC -O2 -w -fno-plt \
            -fno-strict-aliasing -fwrapv -I$include \$f -o \${f%.c}$suffix -lpthread"
    wait
    # LAPACK from SciPy's own library, where the wheel of OpenBLAS is not there
    blas="$WORK/site/scipy_openblas32/lib" && mkdir -p "$blas"
    touch "$blas/../__init__.py"
    cp "$(python3 -c "import os, scipy; print(os.path.dirname(scipy.__file__) + '.libs')")"/* "$blas/"
}

[ "${1:-}" = pack ] && pack || ready
