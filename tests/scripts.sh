#!/usr/bin/env bash
# The scripts refuse what they do not know in one line.
source "$(dirname "$0")/../scripts/common.sh"

# refused PATTERN COMMAND ...: it fails, and the last line on standard error matches.
refused() {
    local pattern=$1 output
    shift
    if output=$("$@" 2>&1 >/dev/null); then
        die "$* succeeds"
    fi
    tail -n 1 <<<"$output" | grep -q "^ggml-et: error: .*$pattern" || die "$* says: $output"
    say "ok: $*"
}

[ "$(scripts/stock --list | head -n 1)" = b11434 ] || die "scripts/stock --list does not begin with the newest host"
refused 'unknown host' scripts/stock b1
refused "can't make" scripts/model q9_9
refused 'unknown figure' scripts/measure beauty
