# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ggml-et

# Progress goes to standard error: the last line of standard output is a script's result.
say() { printf '%s\n' "ggml-et: $*" >&2; }
die() { say "error: $*"; exit 1; }

# need COMMAND=PACKAGE ...: installs the Debian package of each command that is missing.
need() {
    local missing=() pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null 2>&1 || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -eq 0 ] && return
    install_packages "${missing[@]}"
}

# apt_get ARGUMENT ...: apt-get as root, never asking; what it says is shown only when it fails.
apt_get() {
    local sudo=() output
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    output=$("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" 2>&1) && return
    tail -n 20 <<<"$output" >&2
    return 1
}

# install_packages PACKAGE ...: with apt where we may, else one line that says what to install.
install_packages() {
    command -v apt-get >/dev/null 2>&1 || die "please install: $*"
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || die "please run: sudo apt-get install $*"
    say "installing Debian packages: $*"
    apt_get update || die "apt-get can't read its package lists"
    apt_get install --no-remove "$@" || die "apt-get can't install: $*"
}

# fetch_pypi SHA256 DIR REQUIREMENT [PIP OPTION ...]: one distribution file, checked against its hash.
fetch_pypi() {
    local hash=$1 dir=$2 requirement=$3
    shift 3
    python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip python3-venv
    mkdir -p "$dir"
    printf '%s --hash=sha256:%s\n' "$requirement" "$hash" >"$dir/requirement.txt"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        "$@" -d "$dir" -r "$dir/requirement.txt" >&2
}

# locked NAME COMMAND ...: two scripts that fill the same cache entry wait for each other.
locked() {
    local name=$1
    shift
    mkdir -p "$cache"
    (
        flock 9
        "$@"
    ) 9>"$cache/$name.lock"
}

# need_rust: cargo of the version that Cargo.toml asks for. Debian 12's own is older; its packages rustc-web and
# cargo-web are kept new enough for browsers.
need_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    if ! command -v cargo >/dev/null 2>&1; then
        if [ -x "$HOME/.cargo/bin/cargo" ]; then
            PATH=$HOME/.cargo/bin:$PATH
        elif grep -qs '^VERSION_ID="12"' /etc/os-release; then
            install_packages cargo-web rustc-web
        else
            install_packages cargo
        fi
    fi
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$wanted" "${found:-0}" | sort -V | head -n 1)" = "$wanted" ] ||
        die "Rust $wanted or newer is needed and this is ${found:-none}: install it with rustup, or on Debian 12" \
            "replace the packages rustc and cargo by rustc-web and cargo-web"
}

# need_build_tools: all that \`cargo build\` needs here.
need_build_tools() {
    local compiler=riscv64-unknown-elf-gcc=gcc-riscv64-unknown-elf
    [ -z "${ET_TOOLCHAIN:-}" ] || compiler=cc=gcc
    need cc=gcc "$compiler"
    # bindgen loads libclang when it runs; the package also brings the headers of the compiler.
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null ||
        ldconfig -p 2>/dev/null | grep -q libclang || install_packages libclang-dev
    need_rust
}

# target_dir: where cargo puts what it builds.
target_dir() {
    (cd "$root" && cargo metadata --no-deps --format-version 1 --offline) |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}

# build_plugin: prints the path of the plugin.
build_plugin() {
    need_build_tools
    need python3=python3
    say "building the plugin and its device kernels (cargo build --release)"
    (cd "$root" && cargo build --release --locked) >&2 || die "the plugin does not build"
    printf '%s\n' "$(target_dir)/release/libggml_et.so"
}
