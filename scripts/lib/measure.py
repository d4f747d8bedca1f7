"""Takes the figures that the project's bars are about. Called by scripts/measure."""

import argparse
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path

import stock
import kld
import ops
import timing

FORMS = ["q8_0", "q4_0", "q4_1", "f16"]
# tokens = context * chunks
KLD_RUNS = {"q8_0": {"chunks": 4, "ubatch": 512}, "q4_0": {"chunks": 2, "ubatch": 64},
            "q4_1": {"chunks": 2, "ubatch": 64}, "f16": {"chunks": 2, "ubatch": 64}}


class Measure:
    """The figures by name; what several of them need is measured once."""

    def __init__(self, plugin):
        self.host = stock.Host(stock.NEWEST, plugin)
        self.plugin = plugin
        self.kept = {}
        self.figures = {
            **{f"kld_{form}": lambda form=form: self.kld(form, True) for form in FORMS},
            **{f"kld_cpu_{form}": lambda form=form: self.kld(form, False) for form in FORMS},
            "decode_vs_cpu": lambda: self.slowdown("decode"),
            "prefill_vs_cpu": lambda: self.slowdown("prefill"),
            "emu_mips_decode": self.emulated_mips,
            "calibration_cpu_decode_tps": lambda: self.rate("decode", False),
            "cycles_decode_token": lambda: self.modelled()["decode"],
            "cycles_prefill_512": lambda: self.modelled()["prefill"],
            "support_cases": lambda: sum(self.support("ET0").values()),
            "support_missing": lambda: len(ops.missing(self.support("CPU"), self.support("ET0"))),
        }

    def once(self, key, make):
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def kld(self, form, et):
        return kld.mean(self.host, form, 512, et=et, **KLD_RUNS[form])

    def bench(self, what, et, repetitions, *args):
        """Tokens per second of each repetition, and the run."""
        size = ["-p", 512, "-n", 0] if what == "prefill" else ["-p", 0, "-n", 8]
        where = ["-ngl", 99, "-dev", "ET0"] if et else ["-t", 1]
        run = self.host.run(
            "llama-bench", "-m", stock.model("q8_0"), *size, "-r", repetitions, "-o", "json", "--no-warmup", *where, *args,
            et=et, timeout=7200,
        )
        try:
            return json.loads(run.stdout[run.stdout.index("["):])[0]["samples_ts"], run
        except (ValueError, LookupError):
            raise RuntimeError(f"no result: {run.tail()}") from None

    def rate(self, what, et):
        """The median of five. The CPU runs on one thread."""
        return self.once((what, et), lambda: statistics.median(self.bench(what, et, 5)[0]))

    def slowdown(self, what):
        """How many times the CPU's time ET0 takes."""
        return self.rate(what, False) / self.rate(what, True)

    def emulated_mips(self):
        """Emulated instructions per microsecond while decoding: the plugin logs an ET_EMU line when its device closes."""
        _, run = self.bench("decode", True, 1, "-v")
        found = re.findall(r"ET_EMU\|.*?instructions=(\d+)\|seconds=([\d.]+)", run.output)
        if not found:
            raise RuntimeError("the plugin logged no ET_EMU line")
        return sum(int(n) for n, _ in found) / sum(float(s) for _, s in found) / 1e6

    def modelled(self):
        """Cycles of a token and of a prompt on all shires, by the timing model."""
        with tempfile.TemporaryDirectory(prefix="ggml-et-timing-") as folder:
            return self.once("modelled", lambda: timing.cycles(self.host, self.plugin, Path(folder)))

    def support(self, backend):
        return self.once(("support", backend), lambda: ops.support(ops.support_csv(self.host, backend)))


def main():
    parser = argparse.ArgumentParser(prog="scripts/measure", description="Takes the project's figures.")
    parser.add_argument("--plugin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON object: name -> number")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("name", nargs="*", help="figures to take (default: all)")
    args = parser.parse_args()
    measure = Measure(args.plugin)
    if args.list:
        print("\n".join(measure.figures))
        return 0
    unknown = [name for name in args.name if name not in measure.figures]
    if unknown:
        sys.exit(f"ggml-et: error: unknown figure '{unknown[0]}'; scripts/measure --list names them")
    taken, failed = {}, False
    for name in args.name or measure.figures:
        print(f"ggml-et: measuring {name}", file=sys.stderr, flush=True)
        try:
            taken[name] = measure.figures[name]()
        except (RuntimeError, ops.Missing) as error:
            failed = True
            print(f"ggml-et: error: {name}: {error}", file=sys.stderr, flush=True)
            continue
        if not args.json:
            print(f"{name:28} {taken[name]:.6g}", flush=True)
    if args.json:
        print(json.dumps(taken))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
