#!/usr/bin/env bash
# Runs everything that needs a GPU and prints what docs/benchmarks.md and docs/reliability.md record.
#
#     tests/device/run.sh [--peers] BUILD [OUT]
#
# BUILD is a build directory, usually build/static made with `cmake --preset static`, which needs nothing but libc and
# so can be carried to another machine; only the comparison with the peers loads libkiln.so, which needs libuv.so.1 and
# libjansson.so.4 there or in LD_LIBRARY_PATH. That is short unless --peers asks for all of it, many minutes. Logs and JSON
# go to OUT (default: a temporary directory).
set -uo pipefail

usage="usage: tests/device/run.sh [--peers] BUILD [OUT]"
short=(--quick --parts throughput)
if [ "${1-}" = --peers ]; then
    short=()
    shift
fi
build=${1:?$usage}
out=${2:-$(mktemp -d)}
mkdir -p "$out"
here=$(cd "$(dirname "$0")" && pwd)
kiln=$build/tools/kiln
failed=0
KILN_CACHE_DIR=$(mktemp -d)
export KILN_CACHE_DIR

step() {
    local name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$out/$name.log"
    local status=${PIPESTATUS[0]}
    if [ "$status" -ne 0 ]; then
        printf 'FAILED %s with status %d\n' "$name" "$status"
        failed=1
    fi
}

size=4096x393216
step doctor "$kiln" doctor
step ops "$build/tests/device_ops" cuda:0 "$here/../../docs/examples/templates"
step rows "$build/tests/device_rows"
step images "$build/tests/device_images"
step graphs "$build/tests/device_graphs"
step sources "$build/tests/device_sources"
step programs env KILN_PROGRAMS="$here/../programs" "$build/tests/device_programs" ${KILN_CUDA_HEADERS:+-I "$KILN_CUDA_HEADERS"}
if python3 -c 'import numpy' 2>/dev/null; then
    step templates python3 "$here/templates.py" "$kiln" cuda:0
else
    echo "no NumPy here: the example templates are left out"
fi
step rowsum "$kiln" sweep 'template=rowsum op=hardsigmoid,add(x,y) dtype=f32,f64,f16,bf16' --size rows=4096 --size cols=5001
step launch "$build/tests/bench_launch_cost" --libcuda libcuda.so.1 --calls 200
step bench "$kiln" bench "op=hardsigmoid,hardtanh,add(x,y) dtype=f32" --size $size
step latency "$build/tests/bench_latency" --libcuda libcuda.so.1
if command -v compute-sanitizer >/dev/null; then
    # The driver's refusals are not to be reported: to ask whether the default stream is captured while another stream is, which
    # the program does once for each mode, gives CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and that is the answer.
    step memcheck compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 "$build/tests/device_graphs" untimed
else
    echo "no compute-sanitizer here: memcheck is left out"
fi
if python3 -c 'import torch' 2>/dev/null; then
    step bits env KILN_LIBRARY="$build/src/libkiln.so" python3 "$here/torch_bits.py"
    step eager env KILN_LIBRARY="$build/src/libkiln.so" python3 "$here/torch_eager.py"
    step module env KILN_LIBRARY="$build/src/libkiln.so" python3 "$here/torch_module.py" --size $size --processes 3 --out "$out/module.json"
    step peers python3 "$here/../bench/peers.py" "$build" "${short[@]}" --json "$out/peers.json"
else
    echo "no PyTorch here: the comparison with the peers is left out"
fi
rm -rf "$KILN_CACHE_DIR"
[ "$failed" -eq 0 ] && printf '\nall device checks passed; logs in %s\n' "$out"
exit "$failed"
