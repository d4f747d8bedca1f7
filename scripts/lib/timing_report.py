"""Modelled against published figures. Called by scripts/timing-report."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import replay
import stock
import timing

MHZ = 650
WIDTH = 76
MINIONS = 1024
PEAK_F32 = 8 * MINIONS  # multiply-accumulates per cycle
PEAK_F16 = 16 * MINIONS
# What a launch costs beside its kernel on today's boards, which launch every operation by itself (timing sheet, 6.4).
GAP_US = 157

# Llama-3.2-1B: rows, columns and how many there are of each matrix; of the head, an eighth is run.
LAYER = [(2048, 2048, 2), (512, 2048, 2), (8192, 2048, 2), (2048, 8192, 1)]
LAYERS = 16
HEAD = (128256 // 8, 2048, 8)
OPERATIONS = 292
BLOCKS = {"ET_F32": (1, 4), "ET_F16": (1, 2), "ET_Q8_0": (32, 34)}


def enumerators():
    """The numbers of et_command.h."""
    text = (stock.ROOT / "kernels/include/et_command.h").read_text()
    numbers = {}
    for body in re.findall(r"^enum \w+ \{([^}]*)\}", text, re.M):
        names = re.findall(r"^\s*((?:ET_\w+(?:,\s*)?)+)", re.sub(r"//.*", "", body), re.M)
        numbers.update({name: i for i, name in enumerate(re.findall(r"ET_\w+", " ".join(names)))})
    numbers["ET_LINES_OWNED"] = int(re.search(r"#define ET_LINES_OWNED (\d+)u", text).group(1))
    return numbers


class Products:
    """Modelled cycles of single MUL_MAT commands on all shires."""

    def __init__(self, program, image, folder):
        self.program, self.image, self.folder = program, image, Path(folder)
        self.numbers = enumerators()
        self.kept = {}

    def tensor(self, buffer, kind, rows, columns, flags=0):
        elements, size = BLOCKS[kind]
        row = columns // elements * size
        return [
            {"address_of": buffer}, {"u32": self.numbers[kind]}, {"u32": flags},
            *({"u32": n} for n in (columns, rows, 1, 1)), *({"u64": n} for n in (size, row, row * rows, row * rows)),
        ]

    def cycles(self, kind, m, k, n):
        """m x k weights of a type by n columns."""
        if (kind, m, k, n) not in self.kept:
            self.kept[kind, m, k, n] = self.run(kind, m, k, n)
        return self.kept[kind, m, k, n]

    def run(self, kind, m, k, n):
        few = n <= (20 if kind == "ET_Q8_0" else 4)
        kernel = self.numbers["ET_KERNEL_MUL_MAT_VEC" if few else "ET_KERNEL_MUL_MAT_TILE"]
        elements, size = BLOCKS[kind]
        command = [
            {"u32": kernel}, {"u32": 2}, {"u32": 1}, {"u32": 0}, {"u64": 0}, {"u64": 0}, {"bytes": "00" * 96},
            *self.tensor("dst", "ET_F32", n, m, self.numbers["ET_LINES_OWNED"]),
            *self.tensor("weights", kind, m, k), *self.tensor("columns", "ET_F32", n, k), {"bytes": "00" * 64 * 3},
        ]
        launch = {
            "format": "et-launch", "version": 1, "elf": str(self.image), "shires": timing.SHIRES,
            "arguments": [
                {"address_of": "commands"}, {"u64": 1}, {"address_of": "status"}, {"address_of": "barrier"},
                *[{"u64": 0}] * 4,
            ],
            "buffers": [
                {"name": "commands", "fill": {"values": command}}, {"name": "status", "bytes": 64},
                {"name": "barrier", "bytes": 64}, {"name": "weights", "bytes": m * k // elements * size},
                {"name": "columns", "bytes": 4 * k * n}, {"name": "dst", "bytes": 4 * m * n},
            ],
        }
        file = self.folder / f"{kind}-{m}-{k}-{n}.json"
        file.write_text(json.dumps(launch))
        command = [self.program, "run", "--timing", "--json", file]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        try:
            return json.loads(done.stdout)["timing"]["commands"][0]["cycles"]
        except (ValueError, KeyError, IndexError):
            raise RuntimeError(f"et-replay failed on {file.name}: {done.stdout[-500:]}{done.stderr[-500:]}") from None

    def token(self, kind):
        """Seconds of all products of one token of Llama-3.2-1B, whatever its weights' type."""
        layers = LAYERS * sum(count * self.cycles(kind, m, k, 1) for m, k, count in LAYER)
        m, k, parts = HEAD
        return (layers + parts * self.cycles(kind, m, k, 1)) / MHZ / 1e6


def micro():
    """What the emulator's micro-kernel tests print: name, modelled, measured, in cycles."""
    command = ["cargo", "test", "--release", "--locked", "-p", "et-emulator", "--test", "timing", "--", "--nocapture"]
    done = subprocess.run(command, cwd=stock.ROOT, capture_output=True, text=True, check=False)
    rows = re.findall(r"^(?:test .*\.\.\. )?(.+): ([\d.]+) cycles, measured ([\d.]+)$", done.stdout, re.M)
    if not rows:
        raise RuntimeError(f"the micro-kernels did not run: {done.stderr[-1000:]}")
    return [(name, float(modelled), float(measured)) for name, modelled, measured in sorted(set(rows))]


def board(products, cycles_of):
    """Rows of the boards: name, unit, modelled, published."""
    stream = cycles_of["F32 from the B buffer"]
    yield "FP32 tensor products from the B buffer, share of peak (talk)", "%", 100 * 512 / stream, 96.2
    yield "int8 product 16x64x16, pitch (journal)", "cycles", cycles_of["int8 16x64x16"], 318.0
    m, k, n = 2048, 2048, 512
    for kind, peak, name, published in [
        ("ET_F32", PEAK_F32, "F32 matrix kernel, share of FP32 peak (ggml-et: whole prefill)", 9.4),
        ("ET_F16", PEAK_F16, "F16 matrix kernel, share of FP16 peak (ggml-et: kernel alone)", 24.6),
    ]:
        yield name, "%", 100 * m * k * n / products.cycles(kind, m, k, n) / peak, published
    for kind, size, published in [("ET_Q8_0", 1.313, 13.54), ("ET_F16", 2.48, 9.45), ("ET_F32", 4.94, 6.09)]:
        kernels = products.token(kind)
        name = f"Llama-3.2-1B {kind[3:]} decode"
        yield f"{name}, every operation launched", "tokens/s", 1 / (kernels + OPERATIONS * GAP_US / 1e6), published
        yield f"{name}, weights streamed by the kernels (the sheet's fit)", "GB/s", size / kernels, 42.3
    micros = products.cycles("ET_Q8_0", 4096, 4096, 2) / MHZ + GAP_US
    yield "MUL_MAT Q8_0 4096x4096, N=2, with its launch", "us", micros, 3112
    layers = LAYERS * sum(count * products.cycles("ET_Q8_0", m, k, n) for m, k, count in LAYER)
    seconds = (layers / MHZ + OPERATIONS * GAP_US) / 1e6
    yield "Llama-3.2-1B Q8_0 prefill of 512, products and launches", "tokens/s", n / seconds, 889


def main():
    parser = argparse.ArgumentParser(prog="scripts/timing-report", description="Modelled against published figures.")
    parser.add_argument("--plugin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON list of rows")
    args = parser.parse_args()
    rows = []

    def row(group, name, unit, modelled, published):
        error = 100 * (modelled / published - 1)
        keys = ("group", "name", "unit", "modelled", "published", "error_percent")
        rows.append(dict(zip(keys, (group, name, unit, modelled, published, error))))
        if not args.json:
            print(f"{name:{WIDTH}} {modelled:10.2f} {published:10.2f} {unit:9} {error:+7.1f} %", flush=True)

    def head(title):
        if not args.json:
            print(f"{title:{WIDTH}} {'modelled':>10} {'published':>10}", flush=True)

    try:
        cycles_of = {}
        head("RTL of the minion (timing sheet 1 to 3)")
        for name, modelled, measured in micro():
            cycles_of[name] = modelled
            row("rtl", name, "cycles", modelled, measured)
        head("Boards (timing sheet 5 and 6.4); our kernels stand in for others")
        with tempfile.TemporaryDirectory(prefix="ggml-et-timing-") as folder:
            program = replay.program(args.plugin)
            products = Products(program, Path(args.plugin).with_name("et-kernels.debug"), folder)
            for name, unit, modelled, published in board(products, cycles_of):
                row("board", name, unit, modelled, published)
    except RuntimeError as error:
        sys.exit(f"ggml-et: error: {error}")
    if args.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
