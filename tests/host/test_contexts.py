"""Caches of every type survive a context shift, and contexts of one process do not disturb one another.

llama.cpp changes its caches in place. What the device refuses there ends in an abort, not on the CPU.
"""

import subprocess
import tempfile
from pathlib import Path

from .common import HostTest, host

HERE = Path(__file__).resolve().parent
# Numbers of ggml_type, and how far a cache of that type may move a logit of the tiny model (the logits are about 0.1).
TYPES = {
    "f32": (0, 1e-4), "f16": (1, 1e-3), "bf16": (30, 2e-3), "q8_0": (8, 2e-3), "q5_1": (7, 1e-2), "q5_0": (6, 1e-2),
    "iq4_nl": (20, 2e-2), "q4_1": (3, 2e-2), "q4_0": (2, 2e-2),
}


class Contexts(HostTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        folder, bin = Path(cls.folder.name), host().bin
        source = bin.parent.parent / "source"
        libraries = [f"-L{bin}", "-l:libllama.so", "-l:libggml.so", "-l:libggml-base.so", f"-Wl,-rpath,{bin}", "-lpthread"]
        cls.program = folder / "contexts"
        subprocess.run(
            ["cc", f"-I{source}/include", f"-I{source}/ggml/include", "-o", cls.program, HERE / "contexts.c", *libraries],
            check=True,
        )
        loader = folder / "loader.so"
        (folder / "loader.c").write_text(
            "void ggml_backend_load_all(void);\n"
            "__attribute__((constructor)) static void load(void) { ggml_backend_load_all(); }\n"
        )
        subprocess.run(["cc", "-shared", "-fPIC", "-o", loader, folder / "loader.c", *libraries], check=True)
        made = host().run(
            "test-llama-archs", "-s", 1, "-b", "CPU", "-a", "llama", "-o", folder, et=False, env={"LD_PRELOAD": str(loader)}
        )
        cls.model = folder / "llama-dense.gguf"
        if not cls.model.exists():
            raise AssertionError("no tiny model was made\n" + made.tail())

    def logits(self, k, v, contexts=1, et=True):
        run = host().run(self.program, self.model, host().bin, TYPES[k][0], TYPES[v][0], contexts, et=et)
        self.assertEnded(run)
        rows = [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("logits")]
        self.assertEqual(len(rows), contexts, run.tail())
        return [[float(value) for value in row] for row in rows]

    def test_every_cache_type_is_shifted(self):
        reference = self.logits("f32", "f32", et=False)[0]
        for k, v in [*((name, name) for name in TYPES), ("q8_0", "q4_0"), ("f16", "q8_0")]:
            with self.subTest(k=k, v=v):
                error = max(abs(a - b) for a, b in zip(self.logits(k, v)[0], reference))
                self.assertLess(error, max(TYPES[k][1], TYPES[v][1]))

    def test_contexts_in_threads(self):
        alone = self.logits("f16", "f16")[0]
        for row in self.logits("f16", "f16", contexts=4):
            self.assertEqual(row, alone)
