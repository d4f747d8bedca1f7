"""What goes wrong ends in one clear line, and never in a crash."""

import tempfile
from pathlib import Path

from .common import PLUGIN, PROMPT, HostTest, host, model, stock


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

    def test_wrong_device_images(self):
        debug = PLUGIN.with_name("et-kernels.debug").read_bytes()
        images = {
            "cut": debug[: len(debug) // 2],
            "empty": b"",
            "of another machine": Path("/bin/true").read_bytes(),
            "no ELF file": b"not an image\n" * 100,
        }
        for what, content in images.items():
            with self.subTest(image=what), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "et-kernels.elf").write_bytes(content)
                self.assertRefused(self.generate({"GGML_ET_KERNELS_PATH": folder}), "et-kernels.elf", "refused")

    def test_no_device_image_in_the_folder(self):
        """The embedded one is used, and a line says so."""
        with tempfile.TemporaryDirectory() as folder:
            run = self.generate({"GGML_ET_KERNELS_PATH": folder})
        self.assertEnded(run)
        self.assertRegex(run.output, r"et-kernels\.elf.*embedded")

    def test_model_larger_than_memory(self):
        run = self.generate({"GGML_ET_EMU_MEMORY": "128M"})
        self.assertNotEqual(run.code, 0)
        self.assertRefused(run, "memory")
