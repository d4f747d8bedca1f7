"""Caches of every type survive a context shift, and contexts of one process do not disturb one another.

llama.cpp changes its caches in place. What the device refuses there ends in an abort, not on the CPU.
"""

import tempfile

from .common import HERE, HostTest, host, program, tiny_model

# Numbers of ggml_type, and how far a cache of that type may move a logit of the tiny model (the logits are about 0.1).
TYPES = {
    "f32": (0, 1e-4), "f16": (1, 1e-3), "bf16": (30, 2e-3), "q8_0": (8, 2e-3), "q5_1": (7, 1e-2), "q5_0": (6, 1e-2),
    "iq4_nl": (20, 2e-2), "q4_1": (3, 2e-2), "q4_0": (2, 2e-2),
}


class Contexts(HostTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = program(HERE / "contexts.c", folder.name)

    def logits(self, k, v, contexts=1, et=True):
        run = host().run(self.program, tiny_model(), host().bin, TYPES[k][0], TYPES[v][0], contexts, et=et)
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
