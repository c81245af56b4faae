#!/usr/bin/env bash
# device_rows under compute-sanitizer's memcheck, racecheck and synccheck: every op that reduces or scans, by each template.
# Prints how many parts each tool found nothing in, and the logs of the parts where it found something.
#
#     tests/device/sanitize.sh BUILD [OUT [SECONDS [FIRST]]]
#
# BUILD is a build directory, usually build/static. The cases run in 48 parts, as many at once as there are cores. SECONDS
# (default: a day) after the start, parts that still run stop and count as not run. FIRST is the part to begin with, 0 to 47:
# one above 0 goes on with the OUT of another run. The kernels are compiled before, without the tools. Logs go to OUT (default:
# a temporary directory).
#
# synccheck of compute-sanitizer 2025.3 is wrong about clusters of blocks: where a grid does not fit the GPU at once it may report
# "Divergent thread(s) in warp" at a barrier, also of a kernel that has no branch. Part 24 has such a grid on an H100.
set -uo pipefail

usage="usage: tests/device/sanitize.sh BUILD [OUT [SECONDS [FIRST]]]"
build=${1:?$usage}
rows=$(realpath "$build")/tests/device_rows
out=${2:-$(mktemp -d)}
seconds=${3:-86400}
first=${4:-0}
parts=48
[[ $seconds =~ ^[0-9]+$ && $first =~ ^[0-9]+$ && $first -lt $parts ]] || { echo "$usage" >&2; exit 2; }
[ -x "$rows" ] || { echo "no $rows; $usage" >&2; exit 2; }
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on PATH" >&2; exit 2; }
mkdir -p "$out"
[ "$first" -gt 0 ] || rm -f "$out"/*.status
end=$(($(date +%s) + seconds))
export rows out parts end
export KILN_CACHE_DIR=${KILN_CACHE_DIR:-$out/cache}

if ! seq 0 $((parts - 1)) | xargs -P "$(nproc)" -I{} "$rows" cuda:0 0 {} "$parts" >"$out/plain.log" 2>&1; then
    echo "device_rows fails without a tool; see $out/plain.log" >&2
    exit 1
fi

# shellcheck disable=SC2016 # $0 and $1 are of the inner shell: the tool and the part
for part in $(seq "$first" $((parts - 1))); do
    printf '%s\n' "racecheck $part" "memcheck $part" "synccheck $part"
done | xargs -P "$(nproc)" -L 1 bash -c '
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] || exit 0
    rm -f "$out/$0.$1.status"
    timeout -k 5 "$left" compute-sanitizer --target-processes application-only --error-exitcode 9 --tool "$0" \
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
