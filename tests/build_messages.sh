#!/usr/bin/env bash
# What stops a build says so in one clear line. Works on a copy of the tree, in the tree's own target directory: the
# crates of others need not be built again, and a build that fails leaves no plugin there.
source "$(dirname "$0")/../scripts/common.sh"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root"/{Cargo.toml,Cargo.lock,build.rs,src,ggml-abi,emulator,kernels} "$copy/"
CARGO_TARGET_DIR=$(target_dir)
export CARGO_TARGET_DIR

# refused WHAT PATTERN [VARIABLE=VALUE ...]: the build fails with one message of ours, which matches.
refused() {
    local what=$1 pattern=$2 output
    shift 2
    if output=$(cd "$copy" && env "$@" cargo build --release --locked 2>&1); then
        die "the build accepts $what"
    fi
    if [ "$(grep -c '^ *ggml-et: ' <<<"$output")" -ne 1 ] || ! sed '1,/^ *ggml-et: /{/^ *ggml-et: /!d}' <<<"$output" |
        grep -q "$pattern"; then
        printf '%s\n' "$output" >&2
        die "the build does not say what is wrong with $what"
    fi
    grep '^ *ggml-et: ' <<<"$output"
}

refused "a missing compiler" 'gcc-riscv64-unknown-elf' ET_TOOLCHAIN=/nowhere/riscv64-
cat >"$copy/kernels/src/forbidden.c" <<'C'
float et_forbidden(float a, float b);
float et_forbidden(float a, float b)
{
    float q;
    __asm__("fdiv.s %0, %1, %2" : "=f"(q) : "f"(a), "f"(b));
    return q;
}
C
refused "an instruction that the chip does not have" 'kernels/src/forbidden\.c:5: .*fdiv\.s'
