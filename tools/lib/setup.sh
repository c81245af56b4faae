# shellcheck shell=bash
# What tools/quickstart and tools/check share: steps with one line each, packages, the GPU compiler, builds.
# Sourced with `root` set to the top of the checkout. Nothing here reads from stdin.
set -euo pipefail

: "${root:?}"
export LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1
exec </dev/null

readonly python=/usr/bin/python3
log_dir=$root/build/log
current_step=setup
step_started=$SECONDS
step_times=()

# step NAME "what it does": ends the step before and names the new one.
step() {
    end_step
    current_step=$1
    step_started=$SECONDS
    printf '== %-10s %s\n' "$1" "$2"
}

end_step() {
    if [ "$current_step" != setup ]; then
        step_times+=("$(printf '%-10s %4d s' "$current_step" $((SECONDS - step_started)))")
    fi
    current_step=setup
}

print_step_times() {
    local line
    step_times+=("$(printf '%-10s %4d s' total "$SECONDS")")
    for line in "${step_times[@]}"; do
        echo "   $line"
    done
}

# fail "what went wrong" "what to do"
fail() {
    printf '\n%s: step %s failed: %s\n' "${0##*/}" "$current_step" "$1" >&2
    printf '  what to do: %s\n' "$2" >&2
    exit 1
}

# quietly LOGNAME COMMAND...: output goes to a log that is shown only on failure.
quietly() {
    local log=$log_dir/$1.log
    shift
    mkdir -p "$log_dir"
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "  (whole log: $log)" >&2
        return 1
    fi
}

# ---- Packages ----

# A probe is KIND:WHAT. True if what it names is there.
have() {
    case $1 in
    cmd:*) command -v "${1#*:}" >/dev/null ;;
    cmake:*)
        local found
        found=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
        [ -n "$found" ] && printf '%s\n%s\n' "${1#*:}" "$found" | sort -CV
        ;;
    pc:*) pkg-config --exists "${1#*:}" 2>/dev/null ;;
    file:*) [ -e "${1#*:}" ] ;;
    py:*) "$python" -c "import ${1#*:}" 2>/dev/null ;;
    fuzzer:*)
        echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d == 0 && n > 0; }' |
            "${1#*:}" -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
        ;;
    *) return 1 ;;
    esac
}

# install_packages "PROBE PACKAGE" ...: installs by apt the packages whose probe fails.
install_packages() {
    local row missing=()
    for row in "$@"; do
        have "${row%% *}" || missing+=("${row##* }")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "   nothing is missing"
        return
    fi
    echo "   missing: ${missing[*]}"
    local names="${missing[*]}"
    command -v apt-get >/dev/null ||
        fail "this system has no apt-get" "install what Debian calls $names by hand and run this again"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null ||
            fail "neither root nor sudo without a password" "run 'sudo apt-get install $names', then this again"
        as_root=(sudo -n)
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    quietly apt-update "${apt[@]}" update ||
        fail "apt-get update" "see the message above; check the network and /etc/apt/sources.list"
    quietly apt-install "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
        fail "apt-get install $names" "see the message above; install them by hand and run this again"
    for row in "$@"; do
        have "${row%% *}" ||
            fail "${row##* } is installed, but ${row%% *} is still not there" \
                "install a newer ${row##* } by hand; Kiln is made for Debian 12 and Ubuntu 24.04"
    done
}

# shellcheck disable=SC2034  # used by the scripts that source this
readonly build_packages=(
    "cmd:gcc gcc" "file:/usr/include/stdio.h libc6-dev" "cmake:3.25 cmake" "cmd:ninja ninja-build"
    "cmd:pkg-config pkg-config" "pc:libxxhash libxxhash-dev" "pc:libsodium libsodium-dev" "pc:libuv libuv1-dev"
    "pc:jansson libjansson-dev" "file:/usr/include/uthash.h uthash-dev" "pc:check check" "pc:mpfr libmpfr-dev"
    "pc:hiredis libhiredis-dev" "pc:libcurl libcurl4-openssl-dev"
    "file:$python python3" "pc:python3 python3-dev" "py:ensurepip python3-venv" "py:numpy python3-numpy"
    "cmd:gnuplot gnuplot-nox")

# ---- The GPU compiler ----

# Prints the path of a libnvrtc that dlopen finds by name; nothing if there is none.
loadable_nvrtc() {
    local version path
    for version in 13 12; do
        while read -r path; do
            # The loader's cache may still list a toolkit that has gone.
            if [ -e "$path" ]; then
                echo "$path"
                return
            fi
        done < <(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null |
            sed -n "s|^[[:space:]]*libnvrtc\.so\.$version .*=> ||p")
    done
}

# Prints the path of a libnvrtc in a toolkit that the loader does not know; nothing if there is none.
toolkit_nvrtc() {
    local version place
    for version in 13 12; do
        for place in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-*; do
            if [ -n "$place" ] && [ -e "$place/lib64/libnvrtc.so.$version" ]; then
                echo "$place/lib64/libnvrtc.so.$version"
            fi
        done
    done | sed -n 1p
}

# Prints the path of the libnvrtc in the wheels; nothing if they are not there.
wheel_nvrtc() {
    find "$root/build/cuda-wheels" -name 'libnvrtc.so.1[23]' 2>/dev/null | sed -n 1p
}

fetch_wheels() {
    local wheels=$root/build/cuda-wheels venv=$root/build/venv
    [ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ] ||
        fail "NVIDIA has no NVRTC for $(uname -m)" "use the cpu backend: cmake --preset release"
    have file:"$venv/bin/pip" || quietly venv "$python" -m venv "$venv" ||
        fail "cannot make a Python environment in build/venv" "install python3-venv and run this again"
    rm -rf "$wheels" "$wheels.part"
    # The oldest of CUDA 13: a driver of that major version runs its cubins and takes its PTX.
    quietly pip "$venv/bin/pip" install --disable-pip-version-check --no-input --no-deps --target "$wheels.part" \
        'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
        'nvidia-nvjitlink==13.0.*' ||
        fail "pip could not fetch NVIDIA's wheels" \
            "check the network or pip's settings; or install the CUDA toolkit; or set KILN_NVRTC to a libnvrtc.so"
    mv "$wheels.part" "$wheels"
}

# Finds NVRTC, fetching NVIDIA's wheels into build/cuda-wheels where there is none. Sets cmake_cuda, options for cmake.
find_nvrtc() {
    cmake_cuda=()
    if [ "${KILN_SETUP_HIDE_CUDA:-0}" = 1 ]; then
        echo "   KILN_SETUP_HIDE_CUDA=1: any installed toolkit is ignored"
        unset CUDA_PATH CUDA_HOME KILN_NVRTC
    elif [ -n "${KILN_NVRTC:-}" ]; then
        [ -e "$KILN_NVRTC" ] || fail "KILN_NVRTC=$KILN_NVRTC does not exist" "correct it or unset it"
        echo "   KILN_NVRTC names $KILN_NVRTC"
        return
    else
        local found
        found=$(loadable_nvrtc)
        if [ -n "$found" ]; then
            echo "   found $found"
            return
        fi
        found=$(toolkit_nvrtc)
        if [ -n "$found" ]; then
            echo "   found $found"
            export KILN_NVRTC=$found
            return
        fi
    fi
    if [ -z "$(wheel_nvrtc)" ] || [ -z "$(find "$root/build/cuda-wheels" -path '*/cub/cub.cuh')" ] ||
        [ -z "$(find "$root/build/cuda-wheels" -name 'libnvJitLink.so.1[23]')" ]; then
        echo "   fetching NVIDIA's wheels of NVRTC, its linker and the headers into build/cuda-wheels (100 MB)"
        fetch_wheels
    fi
    KILN_NVRTC=$(wheel_nvrtc)
    [ -n "$KILN_NVRTC" ] || fail "the wheels hold no libnvrtc" "remove build/cuda-wheels and run this again"
    export KILN_NVRTC
    echo "   using $KILN_NVRTC"
    local header
    header=$(find "$root/build/cuda-wheels" -name cuda.h | sed -n 1p)
    [ -z "$header" ] || cmake_cuda=("-DKILN_CUDA_INCLUDE=${header%/*}")
}

# ---- Builds ----

# The source is kept free of warnings for gcc 12 and clang 14; what other versions warn of must not stop a build.
werror_for() {
    local compiler=${CC:-cc} known=12 version
    if [ "$1" = clang ]; then
        compiler=clang known=14
    fi
    version=$("$compiler" -dumpversion)
    if [ "${version%%.*}" = "$known" ]; then echo ON; else echo OFF; fi
}

# build PRESET [TARGET...]
build() {
    local preset=$1
    shift
    (
        cd "$root"
        quietly "configure-$preset" cmake --preset "$preset" "-DKILN_WERROR=$(werror_for "$preset")" \
            "${cmake_cuda[@]}" ||
            fail "cmake --preset $preset" "see the message above; remove build/$preset and run this again"
        quietly "build-$preset" cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"} ||
            fail "the build of preset $preset" "see the compiler's messages above"
    )
}
