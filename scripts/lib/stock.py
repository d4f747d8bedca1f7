"""Runs the programs of a stock llama.cpp, with the plugin on the emulator or without it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests/data/prose.txt"
NEWEST = "b11434"
# How llama.cpp is told to put all of a model on the emulated chip.
ON_ET = ["-ngl", "99", "--device", "ET0"]


def last_line(command):
    """The last line that one of the scripts prints: its result."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.split("\n")[:-1]
    if done.returncode != 0 or not lines:
        sys.exit(f"ggml-et: error: {' '.join(map(str, command))} failed")
    return lines[-1]


def model(form):
    """The path of SmolLM2-135M in the given form."""
    return last_line([ROOT / "scripts/model", form])


class Run:
    """What a program did: `code` is negative after a signal and None after the time limit."""

    def __init__(self, command, code, stdout, stderr, seconds):
        self.command = command
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        self.seconds = seconds

    @property
    def output(self):
        return self.stdout + self.stderr

    def tail(self, lines=15):
        """The end of what was printed, for a failure's message."""
        text = [line for line in self.output.splitlines() if line.strip()]
        how = "ran into its time limit" if self.code is None else f"ended with {self.code}"
        return f"{self.command[0]} {how}:\n" + "\n".join(text[-lines:])

    def plugin_lines(self):
        """What the plugin said: its lines carry its name, whatever the host puts before them."""
        return [line for line in self.output.splitlines() if re.search(r"\bggml[-_]et\b", line)]


class Host:
    """One stock llama.cpp, by its name in scripts/stock."""

    def __init__(self, name, plugin, targets=()):
        self.name = name
        self.plugin = str(plugin)
        self.bin = Path(last_line([ROOT / "scripts/stock", name, *targets]))

    def environment(self, et=True, env=None):
        """The variables for a program of this host: no settings but these."""
        full = {k: v for k, v in os.environ.items() if not re.match(r"(GGML|LLAMA|ET)_", k)}
        if et:
            full["GGML_BACKEND_PATH"] = self.plugin
            full["GGML_ET_DEVICE"] = "emulator"
        full.update(env or {})
        return {k: v for k, v in full.items() if v is not None}

    def compile(self, source, folder, *options):
        """A C program, or with -shared a library, compiled against this host's libraries."""
        out, include = Path(folder) / source.stem, self.bin.parent.parent / "source"
        subprocess.run(
            ["cc", *options, f"-I{include}/include", f"-I{include}/ggml/include", "-o", out, source, f"-L{self.bin}",
             "-l:libllama.so", "-l:libggml.so", "-l:libggml-base.so", f"-Wl,-rpath,{self.bin}", "-lpthread"],
            check=True,
        )  # fmt: skip
        return out

    def run(self, program, *args, et=True, env=None, timeout=600):
        """Runs a program of this host; `et=False` leaves the plugin out."""
        full = self.environment(et, env)
        command = [str(self.bin / program), *map(str, args)]
        start = time.monotonic()
        with subprocess.Popen(
            command, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            try:
                streams = process.communicate(timeout=timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                streams = process.communicate()
                code = None
            except BaseException:
                process.kill()
                raise
        text = [stream.decode("utf-8", "replace") for stream in streams]
        return Run([program, *map(str, args)], code, *text, time.monotonic() - start)

    def complete(self, path, prompt, tokens, *args, et=True, env=None, timeout=600):
        """Greedy text from llama-completion; the log is verbose enough to show devices and splits."""
        where = ON_ET if et else []
        return self.run(
            "llama-completion", "-m", path, "-no-cnv", "-p", prompt, "-n", tokens, "--temp", "0", "-lv", "5",
            *where, *args, et=et, env={"GGML_SCHED_DEBUG": "2", **(env or {})}, timeout=timeout,
        )


def computed(log):
    """The graphs in a log made with GGML_SCHED_DEBUG=2: for each a list of (backend, operation, name).

    Nodes that llama.cpp put into the graph but does not compute this time (`c=0`) are left out.
    """
    graphs, backend = [], None
    for line in log.splitlines():
        split = re.search(r"## SPLIT #(\d+): (\S+)", line)
        if split:
            if split[1] == "0":
                graphs.append([])
            backend = split[2]
            continue
        node = re.search(r"node #\s*\d+ \(\s*(\S+)\s*\):\s*(.*?)\s*\(\s*\S+\s*\) \[[^]]*\] use=\d+,c=1:", line)
        if node and graphs:
            graphs[-1].append((backend, node[1], node[2]))
    return graphs


def graphs(log):
    """What ET_GRAPH lines say: `nodes`, `commands`, `launches`, `meetings`, `words`, `cached` of each computation."""
    lines = re.findall(r"ET_GRAPH\|(\S+)", log)
    return [SimpleNamespace(**{name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}) for line in lines]
