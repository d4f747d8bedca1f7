"""Makes docs/ops/ET.csv and the summary beside it. Called by scripts/ops-report."""

import argparse
import collections
import difflib
import sys

import stock
import ops

FOLDER = stock.ROOT / "docs/ops"


def summary(host, cpu, et):
    """One page: a row per operation of which the device supports a case or the project promises one."""
    rows = collections.defaultdict(lambda: [0, 0, 0])
    absent = {case for case in ops.missing(cpu, et)}
    for case, on_cpu in cpu.items():
        row = rows[case[0]]
        row[0] += on_cpu
        row[1] += et.get(case, False)
        row[2] += case in absent
    shown = {op: row for op, row in sorted(rows.items()) if row[1] or op in ops.FAMILIES}
    others = [op for op in sorted(rows) if op not in shown]
    lines = [
        "# Operations",
        "",
        f"Made by `scripts/ops-report` from `test-backend-ops support` of a stock llama.cpp ({host.name}); don't edit.",
        "[ET.csv](ET.csv) has every case. \"CPU\" counts the cases that llama.cpp's CPU backend supports, \"ET\" those that",
        "run on the device, \"missing\" those that this project promises (the types of its list in `scripts/lib/ops.py`) and",
        "does not have. What the device does not support runs on the CPU.",
        "",
        f"In all: {sum(et.values())} of {len(et)} cases on ET, {sum(cpu.values())} on the CPU, {len(absent)} missing.",
        "",
        "| operation | CPU | ET | missing |",
        "|---|---:|---:|---:|",
        *(f"| {op} | {row[0]} | {row[1]} | {row[2] or ''} |" for op, row in shown.items()),
        "",
        "On the CPU only: " + ", ".join(others) + ".",
        "",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="scripts/ops-report")
    parser.add_argument("--plugin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help="fail if the files are stale; change nothing")
    args = parser.parse_args()
    host = stock.Host(stock.NEWEST, args.plugin, ["test-backend-ops"])
    try:
        text = ops.support_csv(host, "ET0")
        cpu = ops.support(ops.support_csv(host, "CPU"))
    except ops.Missing as error:
        sys.exit(f"ggml-et: error: {error}")
    wanted = {"ET.csv": text, "README.md": summary(host, cpu, ops.support(text))}
    stale = False
    for name, content in wanted.items():
        path = FOLDER / name
        present = path.read_text() if path.exists() else ""
        if present == content:
            continue
        stale = True
        if args.check:
            changes = [line for line in difflib.unified_diff(present.splitlines(), content.splitlines(), n=0)][3:]
            print(f"docs/ops/{name} is stale; run scripts/ops-report. The first differences:", *changes[:10], sep="\n")
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            print(f"docs/ops/{name} written")
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
