#!/usr/bin/env bash
# device_rows under compute-sanitizer's memcheck, racecheck and synccheck: every op that reduces or scans, by each template.
# Prints how many parts each tool found nothing in, and the logs of the parts where it found something.
#
#     tests/device/sanitize.sh BUILD [OUT [SECONDS]]
#
# BUILD is a build directory, usually build/static. The cases run in 48 parts, as many at once as there are cores. A part that
# takes more than PART_SECONDS (default: 600) stops and counts as not run, and so do those that still run SECONDS (default: a
# day) after the start. With the same OUT and the same build another call runs the parts that did not. The kernels are compiled
# before, without the tools. Logs go to OUT (default: a temporary directory). With 16 cores and an H200 the whole takes eight
# minutes, and racecheck up to four for a part.
#
# synccheck of compute-sanitizer 2025.3 is wrong about clusters of blocks: where a grid does not fit the GPU at once it may report
# "Divergent thread(s) in warp" at a barrier, also of a kernel that has no branch. `columns` has such grids.
set -uo pipefail

usage="usage: tests/device/sanitize.sh BUILD [OUT [SECONDS]]"
build=${1:?$usage}
rows=$(realpath "$build")/tests/device_rows
out=${2:-$(mktemp -d)}
seconds=${3:-86400}
PART_SECONDS=${PART_SECONDS:-600}
parts=48
[[ $seconds =~ ^[0-9]+$ && $PART_SECONDS =~ ^[0-9]+$ ]] || { echo "$usage" >&2; exit 2; }
[ -x "$rows" ] || { echo "no $rows; $usage" >&2; exit 2; }
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on PATH" >&2; exit 2; }
mkdir -p "$out"
if ! sha256sum --status -c "$out/build" 2>/dev/null; then
    rm -f "$out"/*.status
    sha256sum "$rows" >"$out/build"
fi
end=$(($(date +%s) + seconds))
export rows out parts end PART_SECONDS
export KILN_CACHE_DIR=${KILN_CACHE_DIR:-$out/cache}

if ! seq 0 $((parts - 1)) | xargs -P "$(nproc)" -I{} "$rows" cuda:0 0 {} "$parts" >"$out/plain.log" 2>&1; then
    echo "device_rows fails without a tool; see $out/plain.log" >&2
    exit 1
fi

# shellcheck disable=SC2016 # $0 and $1 are of the inner shell: the tool and the part
for tool in racecheck memcheck synccheck; do # the longest first
    for part in $(seq 0 $((parts - 1))); do
        [ -e "$out/$tool.$part.status" ] || echo "$tool $part"
    done
done | xargs -r -P "$(nproc)" -L 1 bash -c '
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] || exit 0
    timeout -k 5 $((left < PART_SECONDS ? left : PART_SECONDS)) compute-sanitizer --target-processes application-only --error-exitcode 9 --tool "$0" \
        "$rows" cuda:0 0 "$1" "$parts" >"$out/$0.$1.log" 2>&1
    status=$?
    [ "$status" -eq 124 ] || [ "$status" -eq 137 ] || echo "$status" >"$out/$0.$1.status"'

failed=0
for tool in memcheck racecheck synccheck; do
    clean=0 ran=0 found=()
    for status in "$out/$tool".*.status; do
        [ -e "$status" ] || continue
        ran=$((ran + 1))
        if [ "$(cat "$status")" -eq 0 ]; then
            clean=$((clean + 1))
        else
            found+=("${status%.status}.log")
            failed=1
        fi
    done
    echo "$tool: $ran of $parts parts, $clean clean" "${found[@]}"
    [ "$ran" -eq "$parts" ] || failed=1
done
echo "logs in $out"
exit "$failed"
