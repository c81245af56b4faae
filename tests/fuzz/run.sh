#!/usr/bin/env bash
# tests/fuzz/run.sh [SECONDS [TARGET...]]
# Runs each fuzz target of build/fuzz (preset fuzz), or those named, for SECONDS (20), as many at once as there are
# processors. What is learnt stays in build/fuzz/corpus. Status 1 if an input breaks a property, crashes, leaks, takes
# 10 s or 2 GiB; such inputs are kept in build/fuzz/findings.
set -euo pipefail

seconds=${1:-20}
[ $# -eq 0 ] || shift
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build/fuzz
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for path in "$here"/corpus/*; do
        targets+=("${path##*/}")
    done
fi

run_target() {
    local name=$1 log=$build/log/$1.log status=0
    mkdir -p "$build/corpus/$name" "$build/findings" "$build/log"
    UBSAN_OPTIONS=print_stacktrace=1 "$build/tests/fuzz/fuzz_$name" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$name-" "$build/corpus/$name" "$here/corpus/$name" >"$log" 2>&1 || status=$?
    if [ $status -ne 0 ]; then
        tail -n 40 "$log" >&2
        echo "fuzz: $name: a finding; the input is in $build/findings, the log is $log" >&2
        return 1
    fi
    printf '   %-10s %10s executions %7s a second, coverage %s\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")" \
        "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)"
}

failed=0
for ((first = 0; first < ${#targets[@]}; first += $(nproc))); do
    jobs=()
    for name in "${targets[@]:first:$(nproc)}"; do
        run_target "$name" &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do
        wait "$job" || failed=1
    done
done
exit $failed
