"""What goes wrong ends in one clear line, and never in a crash."""

import tempfile
from pathlib import Path

from .common import PROMPT, HostTest, host, stock, model


class Failures(HostTest):
    def generate(self, env):
        return host().run(
            "llama-completion", "-m", model("q4_1"), "-no-cnv", "-p", PROMPT, "-n", 1, *stock.ON_ET, env=env, timeout=300
        )

    def test_wrong_values(self):
        wrong = {
            "GGML_ET_DEVICE": "toaster",
            "GGML_ET_EMU_SHIRES": "33",
            "GGML_ET_EMU_MEMORY": "lots",
            "GGML_ET_EMU_THREADS": "-1",
            "GGML_ET_SHIRE_MASK": "0",
        }
        for name, value in wrong.items():
            with self.subTest(variable=name):
                self.assertRefused(self.generate({name: value}), name, value)

    def test_model_larger_than_memory(self):
        run = self.generate({"GGML_ET_EMU_MEMORY": "64M"})
        self.assertNotEqual(run.code, 0)
        self.assertRefused(run, "memory")
