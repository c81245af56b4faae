#!/usr/bin/env bash
# tools/checks/symbols.sh DIRECTORY
# The shared library in DIRECTORY exports what the public headers declare and nothing else; the static one defines no global
# name without the prefix kiln_.
set -euo pipefail

directory=${1:?usage: symbols.sh DIRECTORY}
headers=$(dirname "$0")/../../include/kiln

declared=$(cat "$headers"/*.h | grep -E '^KILN_API' | grep -oE '\bkiln_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$directory/libkiln.so" | awk '{ print $NF }' | sort -u)
difference=$(diff <(echo "$declared") <(echo "$exported") || true)
if [ -n "$difference" ]; then
    echo "libkiln.so does not export exactly what the public headers declare ('<' is missing, '>' should be hidden):" >&2
    grep '^[<>]' <<<"$difference" >&2
    exit 1
fi

# sys/sdt.h defines _.stapsdt.base in each object with probes, and the headers of NVTX the state of version 3, weak and hidden.
foreign=$(nm --defined-only --extern-only "$directory/libkiln.a" | awk 'NF == 3 { print $3 }' |
    grep -v -e '^kiln_' -e '^_\.stapsdt\.base$' -e '^nvtx.*_v3$' -e '^InitializeInjectionNvtx2_fnptr$' || true)
if [ -n "$foreign" ]; then
    echo "libkiln.a defines global names without the prefix kiln_:" >&2
    echo "$foreign" >&2
    exit 1
fi
