"""What the tests of this folder share: the hosts, the plugin, the models, and the difference between quick and full."""

import atexit
import functools
import os
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts/lib"))

import stock  # noqa: E402

PLUGIN = Path(os.environ["GGML_ET_TEST_PLUGIN"])
FULL = os.environ.get("GGML_ET_TEST_FULL") == "1"
HOSTS = [stock.NEWEST, "0.3.36"]
# What the subset needs; the full set needs all that scripts/stock builds.
TARGETS = {
    stock.NEWEST: [
        "llama-completion", "llama-quantize", "llama-perplexity", "llama-bench", "test-backend-ops", "test-llama-archs",
    ],
    "0.3.36": ["llama-completion", "test-backend-ops"],
}
PROMPT = "The capital of France is"


@functools.cache
def host(name=stock.NEWEST):
    """A stock llama.cpp, built if need be."""
    return stock.Host(name, PLUGIN, () if FULL else TARGETS[name])


@functools.cache
def model(form="q8_0"):
    """The path of SmolLM2-135M-Instruct in a form."""
    return stock.model(form)


def program(source, folder, *options):
    """A C program, or with -shared a library, compiled against the newest host's libraries."""
    return host().compile(source, folder, *options)


@functools.cache
def loader():
    """What to preload into programs of llama.cpp that never load plugins: it loads them before they start."""
    source = scratch() / "loader.c"
    source.write_text(
        "void ggml_backend_load_all(void);\n"
        "__attribute__((constructor)) static void load(void) { ggml_backend_load_all(); }\n"
    )
    return program(source, scratch(), "-shared", "-fPIC")


@functools.cache
def tiny_model():
    """The path of llama.cpp's tiny random Llama."""
    args = ["-s", 1, "-b", "CPU", "-a", "llama", "-o", scratch()]
    made = host().run("test-llama-archs", *args, et=False, env={"LD_PRELOAD": str(loader())})
    path = scratch() / "llama-dense.gguf"
    if not path.exists():
        raise AssertionError("no tiny model was made\n" + made.tail())
    return path


@functools.cache
def scratch():
    """A directory until the tests end."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Path(folder.name)


full_only = unittest.skipUnless(FULL, "only in scripts/test-full")


class HostTest(unittest.TestCase):
    """Assertions about a program's end."""

    def assertEnded(self, run):
        """It ended by itself, and well."""
        self.assertEqual(run.code, 0, run.tail())

    def assertRefused(self, run, *words):
        """It ended by itself, and one line of the plugin's, no more, says why in these words."""
        self.assertIsNotNone(run.code, run.tail())
        self.assertGreaterEqual(run.code, 0, run.tail())
        self.assertNotIn("panicked", run.output)
        said = [line for line in run.plugin_lines() if all(word in line for word in words)]
        self.assertEqual(len(said), 1, f"one line with {words} was expected\n" + run.tail(30))

    def assertOnDevice(self, run):
        """Every layer is on ET0, and the CPU computes nothing but the embedding lookup."""
        self.assertNotRegex(run.output, r"layer +\d+ assigned to device (?!ET0)", "a layer is elsewhere")
        self.assertRegex(run.output, r"layer +\d+ assigned to device ET0")
        graphs = stock.computed(run.output)
        self.assertTrue(graphs, "the log shows no graph\n" + run.tail())
        elsewhere = {node[1:] for graph in graphs for node in graph if not node[0].startswith("ET")}
        self.assertEqual({op for op, _ in elsewhere}, {"GET_ROWS"}, f"on the CPU: {sorted(elsewhere)}")
        for graph in graphs:
            self.assertLessEqual(sum(node[0] == "CPU" for node in graph), 1, "more than the embedding is on the CPU")
            self.assertTrue(any(node[0].startswith("ET") for node in graph), "a graph without the device")
