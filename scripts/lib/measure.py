"""Takes the figures that the project's bars are about. Called by scripts/measure."""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import stock
import kld
import ops
import replay
import timing

FORMS = ["q8_0", "q4_0", "q4_1", "f16"]
# tokens = context * chunks
KLD_RUNS = {"q8_0": {"chunks": 4, "ubatch": 512}, "q4_0": {"chunks": 2, "ubatch": 64},
            "q4_1": {"chunks": 2, "ubatch": 64}, "f16": {"chunks": 2, "ubatch": 64}}


class Measure:
    """The figures by name; what several of them need is measured once."""

    def __init__(self, plugin, folder):
        self.host = stock.Host(stock.NEWEST, plugin)
        self.plugin, self.folder = plugin, folder
        self.kept = {}
        self.figures = {
            **{f"kld_{form}": lambda form=form: self.kld(form, True) for form in FORMS},
            **{f"kld_cpu_{form}": lambda form=form: self.kld(form, False) for form in FORMS},
            "decode_vs_cpu": lambda: self.slowdown("decode"),
            "prefill_vs_cpu": lambda: self.slowdown("prefill"),
            "emu_mips_decode": lambda: self.replayed("decode", 1)["mips"],
            "emu_mips_scalar": self.scalar_mips,
            "emu_int8_gmac_per_s": lambda: self.replayed("prompt_16", 1)["int8_gmac_per_s"],
            "emu_scaling_2": self.scaling,
            "strict_mips": self.strict_mips,
            "calibration_loop": lambda: self.replayed("decode", 1)["calibration"],
            "calibration_cpu_decode_tps": lambda: self.rate("decode", False),
            "cycles_decode_token": lambda: self.modelled()["decode"],
            "cycles_prefill_512": lambda: self.modelled()["prefill"],
            "launches_per_token": lambda: self.per_token("launches"),
            "list_words_per_token": lambda: self.per_token("words"),
            "barriers_per_node": self.barriers,
            "kernel_waits_per_node": self.kernel_waits,
            "overhead_share": lambda: self.modelled()["overhead"],
            "decode_vs_roofline": lambda: self.modelled()["roofline"],
            "host_cached_vs_hash": lambda: self.graph_times("known_us"),
            "host_planned_vs_hash": lambda: self.graph_times("anew_us"),
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
        return self.once(("rate", what, et), lambda: statistics.median(self.bench(what, et, 5)[0]))

    def slowdown(self, what):
        """How many times the CPU's time ET0 takes."""
        return self.rate(what, False) / self.rate(what, True)

    def captured(self, what):
        """A launch on the default topology: the third token of a text, or a prompt of 16 tokens, whose products are int8."""
        size, launch = {"decode": (["-p", 0, "-n", 3], 3), "prompt_16": (["-p", 16, "-n", 0], 1)}[what]
        return self.once(("captured", what), lambda: replay.capture(self.host, self.folder / what, launch, 1, *size))

    def replayed(self, what, threads):
        """The median of five runs of a captured launch in fast mode."""
        options = ["--repeat", 5, "--threads", threads]
        return self.once(("replayed", what, threads), lambda: self.replay(what, *options)["measured"])

    def scaling(self):
        """Two threads over one: the median of five pairs, since this machine's speed changes between them."""
        pairs = [[self.replay("decode", "--repeat", 5, "--threads", n)["measured"]["mips"] for n in (1, 2)] for _ in range(5)]
        return statistics.median(two / one for one, two in pairs)

    def strict_mips(self):
        """The median of three: of one run each, since a launch takes long in strict mode."""
        runs = [self.replay("decode", "--strict", seed, "--repeat", 1)["measured"] for seed in range(3)]
        return statistics.median(run["mips"] for run in runs)

    def replay(self, what, *options):
        program = self.once("et-replay", lambda: replay.program(self.plugin))
        return replay.run(program, self.captured(what), *options)

    def scalar_mips(self):
        """Integer and memory instructions in a loop, on one thread."""
        command = ["cargo", "run", "--release", "--locked", "--quiet", "--package", "et-emulator", "--example", "speed"]
        rates = []
        for _ in range(5):
            run = subprocess.run([*command, "scalar"], cwd=stock.ROOT, capture_output=True, text=True, check=False)
            found = re.search(r"^scalar +[\d.]+ +([\d.]+)$", run.stdout, re.MULTILINE)
            if not found:
                raise RuntimeError(f"the speed example failed: {run.stdout[-300:]}{run.stderr[-300:]}")
            rates.append(float(found[1]))
        return statistics.median(rates)

    def modelled(self):
        """What the timing model says of a token and of a prompt on all shires."""
        return self.once("modelled", lambda: timing.figures(self.host, self.plugin, self.folder / "modelled"))

    def tokens(self, fusions):
        """What ET_GRAPH lines say of tokens on all shires. The first one, for which the plan is made, is left out."""
        env = {"GGML_ET_EMU_SHIRES": str(timing.SHIRES), "GGML_ET_FUSION": fusions}
        args = ["-m", stock.model("q8_0"), "-p", 0, "-n", 4, "-r", 1, "--no-warmup", "-v", *stock.ON_ET]
        run = self.once(("tokens", fusions), lambda: self.host.run("llama-bench", *args, env=env, timeout=3600))
        graphs = stock.graphs(run.output)
        if run.code != 0 or len(graphs) != 4:
            raise RuntimeError(f"{len(graphs)} graphs instead of 4 were computed: {run.tail()}")
        return graphs[1:]

    def per_token(self, what):
        return statistics.mean(getattr(graph, what) for graph in self.tokens("all"))

    def barriers(self):
        """How often all harts meet, the end of the launch included, for each node that is computed."""
        return self.per_token("meetings") / self.tokens("none")[0].commands

    def kernel_waits(self):
        """How often harts wait for others inside the kernels of a token's launch, for each node that is computed."""
        return self.modelled()["waits"] / self.tokens("none")[0].commands

    def graph_times(self, what):
        """What graph_compute takes of the host's time for 500 nodes, over hashing their bytes once: the median of five runs."""
        return statistics.median(run[what] / run["hash_us"] for run in self.once("graph_times", self.time_graphs))

    def time_graphs(self):
        program = self.host.compile(stock.ROOT / "benches/graph_time.c", self.folder, "-O2")
        # Nothing is to be hidden in the background.
        env = {"GGML_ET_DEVICE": "null", "GGML_ET_ASYNC": "0"}
        runs = [self.host.run(program, env=env, timeout=600) for _ in range(5)]
        try:
            return [json.loads(run.stdout[run.stdout.index("{"):]) for run in runs]
        except ValueError:
            raise RuntimeError(f"no result: {runs[0].tail()}") from None

    def support(self, backend):
        return self.once(("support", backend), lambda: ops.support(ops.support_csv(self.host, backend)))


def main():
    parser = argparse.ArgumentParser(prog="scripts/measure", description="Takes the project's figures.")
    parser.add_argument("--plugin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON object: name -> number")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("name", nargs="*", help="figures to take (default: all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ggml-et-measure-") as folder:
        return take(Measure(args.plugin, Path(folder)), args)


def take(measure, args):
    """Takes and prints the figures that were asked for; the exit status."""
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
