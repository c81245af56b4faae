#!/usr/bin/env bash
# The figures of the section "Reductions" of docs/benchmarks.md, and the checks before them.
#
#     tests/device/reductions.sh BUILD [OUT [PART...]]
#
# BUILD is a build directory, usually build/static. The Python module is that of PYTHONPATH, or this tree's with the library
# that KILN_LIBRARY names; PyTorch is needed. Logs go to OUT (default: a temporary directory). Parts, all by default; minutes
# on an H200 with 16 cores:
#
#   bits    device_rows: results against the cpu, and equal bits over 100 runs; 1.5
#   errors  against float64, beside PyTorch's; 0.7
#   table   the table, with torch.compile and Triton; 4.7
#   f16     the same ops in f16; 1.3
#   shapes  odd lengths, few rows, short rows; 3
#   offset  rows that begin one element behind a word; 0.7
#   loss    cross_entropy of 32768 x 50257 logits; 0.4
#   long    one row of 2^31 + 5 elements; 0.1
#   own     an expression that is softmax, beside softmax; 0.1
#   tunes   ten tunes of one shape; 0.3
#   first   the first axis; 2.5
set -uo pipefail

usage="usage: tests/device/reductions.sh BUILD [OUT [PART...]]"
build=${1:?$usage}
[ -x "$build/tests/device_rows" ] || { echo "no $build/tests/device_rows; $usage" >&2; exit 2; }
build=$(realpath "$build")
out=${2:-$(mktemp -d)}
mkdir -p "$out"
out=$(realpath "$out")
shift $(($# < 2 ? $# : 2))
parts=(bits errors table f16 shapes offset loss long own tunes first)
[ $# -gt 0 ] || set -- "${parts[@]}"
for part; do
    [[ " ${parts[*]} " = *" $part "* ]] || { echo "no part $part; $usage" >&2; exit 2; }
done
here=$(dirname "$0")
failed=0
export KILN_CACHE_DIR=${KILN_CACHE_DIR:-$out/cache}

# Runs a command, and prints the end of its log: so many lines.
step() {
    local name=$1 lines=$2
    shift 2
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    printf '\n== %s: status %d, %s\n' "$name" "$status" "$out/$name.log"
    tail -n "$lines" "$out/$name.log"
    [ "$status" -eq 0 ] || failed=1
}

rows() {
    local name=$1 lines=$2
    shift 2
    step "$name" "$lines" python3 "$here/torch_rows.py" "$@"
}

# shellcheck disable=SC2317 # step calls it
bits() {
    seq 0 $(($(nproc) - 1)) | xargs -P "$(nproc)" -I{} "$build/tests/device_rows" cuda:0 100 {} "$(nproc)"
}

all=softmax,log_softmax,layer_norm,rms_norm,l2_normalize,sum,argmax,norm,cumsum,masked,residual,gelu_norm,entropy,mse
six=softmax,layer_norm,rms_norm,sum,cumsum,entropy
for part; do
    case $part in
    bits) step bits 3 bits ;;
    errors) step errors 60 python3 "$here/torch_errors.py" ;;
    table) rows table 120 --rounds 7 --ops $all ;;
    f16) rows f16 60 --rounds 7 --ops $all --dtypes f16 --no-triton ;;
    shapes)
        rows shapes 100 --rounds 7 --ops $six --no-triton \
            --shapes 8x393216,65536x128,1048576x32,32768x4097,32768x1000,4096x50257,1024x393217,1x268435456
        ;;
    offset) rows offset 30 --rounds 7 --ops $six --no-triton --offset 1 --shapes 32768x4096,262144x512 ;;
    loss) rows loss 6 --rounds 7 --ops entropy,loss --no-triton --shapes 32768x50257 ;;
    long) rows long 5 --rounds 5 --ops sum,argmax,norm --no-compile --no-triton --shapes 1x2147483653 --dtypes bf16 ;;
    own)
        step own 9 "$build/tools/kiln" bench 'op=softmax dtype=f32' 'op=exp(x - max(x)) / sum(exp(x - max(x))) dtype=f32' \
            --size 32768x4096 --no-verify
        ;;
    tunes)
        for i in $(seq 10); do
            step "tune$i" 16 env KILN_CACHE_DIR="$out/tune$i" "$build/tools/kiln" tune 'op=softmax dtype=f32' --size 32768x4096 --budget 5
        done
        ;;
    first)
        rows sums 30 --rounds 7 --axis 0 --dtypes f32,bf16,f16 --ops sum
        rows first 60 --rounds 5 --axis 0 --ops argmax,norm,l2_normalize,cumsum,softmax,log_softmax
        ;;
    esac
done
exit "$failed"
