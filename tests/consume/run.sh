#!/usr/bin/env bash
# tests/consume/run.sh PREFIX
# Builds a C and a C++ program outside the tree against the Kiln installed in PREFIX, through find_package and through
# pkg-config, with the shared and with the static library, and runs each. Without a C++ compiler: the C program only.
set -euo pipefail

prefix=$(cd "${1:?usage: run.sh PREFIX}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KILN_CACHE_DIR=$work/cache
flags=(-Wall -Wextra -Wpedantic -Werror)
cc=${CC:-cc}
cxx=${CXX:-c++}

fail() {
    echo "consume: $1" >&2
    exit 1
}

# run NAME COMMAND...: the static programs must not need libkiln.so.
run() {
    local name=$1
    shift
    printf '%-24s ' "$name"
    "$@"
    case $name in
    *static) ! readelf -d "$1" | grep -q 'NEEDED.*libkiln' || fail "$name needs libkiln.so" ;;
    *shared) readelf -d "$1" | grep -q 'NEEDED.*\[libkiln\.so\.0\.2\]' || fail "$name does not need libkiln.so.0.2" ;;
    esac
}

if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
fi
have_cxx=ON
if ! command -v "$cxx" >/dev/null; then
    have_cxx=OFF
    echo "consume: no C++ compiler: install g++ to check the C++ program too"
fi

# A moved tree must work: nothing may hold the path it was installed to.
cp -a "$prefix" "$work/moved"
prefix=$work/moved
pc=$(find "$prefix" -name kiln.pc -print -quit)
[ -n "$pc" ] || fail "no kiln.pc under $prefix"
export PKG_CONFIG_PATH=${pc%/*}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
libdir=$(pkg-config --variable=libdir kiln)
worker=$(pkg-config --variable=worker kiln)
[ -x "$worker" ] || fail "$worker, which kiln.pc names, is no program"
for header in "$here"/../../include/kiln/*.h; do
    [ -e "$prefix/include/kiln/${header##*/}" ] || fail "${header##*/} is not installed"
done
for file in bin/kiln share/man/man1/kiln.1 share/bash-completion/completions/kiln share/zsh/site-functions/_kiln \
    share/fish/vendor_completions.d/kiln.fish share/kiln/templates/elementwise.cu share/kiln/templates/elementwise.c \
    share/kiln/templates/ops.txt share/kiln/templates/real.h; do
    [ -e "$prefix/$file" ] || fail "$prefix/$file is missing"
done
for file in libkiln.so libkiln.so.0.2 libkiln.a; do
    [ -e "$libdir/$file" ] || fail "$libdir/$file is missing"
done

printf '%-24s ' "installed command"
env -u LD_LIBRARY_PATH "$prefix/bin/kiln" --version

log=$work/cmake.log
{
    cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCONSUME_CXX=$have_cxx \
        -DCMAKE_C_FLAGS="${flags[*]}" -DCMAKE_CXX_FLAGS="${flags[*]}" &&
        cmake --build "$work/build"
} >"$log" 2>&1 || {
    cat "$log" >&2
    fail "find_package(Kiln) did not work"
}
for program in "$work"/build/c_* "$work"/build/cxx_*; do
    [ -x "$program" ] && run "find_package ${program##*/}" "$program"
done
# The shared library finds its worker; a program that Kiln is linked into has to name it, as the package does.
run "isolated shared" "$work/build/c_shared" isolated
KILN_WORKER=$worker run "isolated static" "$work/build/c_static" isolated
KILN_WORKER=$(cat "$work/build/worker.txt") run "isolated static" "$work/build/c_static" isolated

read -ra cflags < <(pkg-config --cflags kiln)
read -ra shared < <(pkg-config --libs kiln)
read -ra static < <(pkg-config --static --libs kiln)
static=("${static[@]/#-lkiln/-l:libkiln.a}")
"$cc" -std=c11 "${flags[@]}" "${cflags[@]}" "$here/consume.c" "${shared[@]}" -o "$work/pc_c_shared"
"$cc" -std=c11 "${flags[@]}" "${cflags[@]}" "$here/consume.c" "${static[@]}" -o "$work/pc_c_static"
if [ $have_cxx = ON ]; then
    "$cxx" -std=c++17 "${flags[@]}" "${cflags[@]}" "$here/consume.cpp" "${shared[@]}" -o "$work/pc_cxx_shared"
    "$cxx" -std=c++17 "${flags[@]}" "${cflags[@]}" "$here/consume.cpp" "${static[@]}" -o "$work/pc_cxx_static"
fi
if "$cc" -E -include dlpack/dlpack.h -x c /dev/null >/dev/null 2>&1; then
    "$cc" -std=c11 "${flags[@]}" "${cflags[@]}" "$here/dlpack.c" "${shared[@]}" -o "$work/pc_dlpack_c_shared"
    if [ $have_cxx = ON ]; then
        "$cxx" -std=c++17 -x c++ "${flags[@]}" "${cflags[@]}" "$here/dlpack.c" -x none "${shared[@]}" \
            -o "$work/pc_dlpack_cxx_shared"
    fi
else
    echo "consume: no dlpack/dlpack.h: install libdlpack-dev to check kiln/dlpack.h too"
fi
export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for program in "$work"/pc_*; do
    run "pkg-config ${program##*/pc_}" "$program"
done
