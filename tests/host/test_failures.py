"""What goes wrong ends in one clear line, and never in a crash."""

import tempfile
from pathlib import Path

from .common import HERE, PLUGIN, PROMPT, HostTest, host, model, program, stock

import kernels


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
            "GGML_ET_FUSION": "norm,toast",
            "GGML_ET_PLANS": "-1",
            "GGML_ET_ASYNC": "2",
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


# What SUM_ROWS does instead of its work, and what is said of it.
BROKEN = {
    "fault": ("*ET_PTR(volatile uint32_t, 16) = 0;", "SUM_ROWS 'bad' failed: hart"),
    "code": ("return ET_BAD_TYPE;", "SUM_ROWS 'bad' failed: its kernel sum_rows_f32 returned code"),
    "credit that never comes": ('__asm__ volatile("csrwi fcc, 1");', "deadlock"),
}


class Kernels(HostTest):
    """Failures on the device, which the host has left alone meanwhile."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.program = program(HERE / "faults.c", cls.folder, "-lm")
        cls.kernels = kernels.Kernels(cls.folder / "kernels", PLUGIN)

    def image(self, name, file, function, statement):
        """An image in which a kernel begins with a statement."""
        text = self.kernels.read(file)
        start = text.index("{", text.index(f"uint32_t {function}(")) + 1
        return self.kernels.image(name, {file: f"{text[:start]} {statement}{text[start:]}"})

    def test_failures_behind_the_hosts_back(self):
        for name, (statement, said) in BROKEN.items():
            image = self.image(name, "src/sum_rows.c", "et_sum_rows", statement)
            for mode, expected in {
                "1": ["accepted", "nothing nothing", "refused", "accepted", "a number a number"],
                "0": ["refused", None, "accepted", "accepted", "a number a number"],
            }.items():
                with self.subTest(broken=name, asynchronous=mode):
                    env = {"GGML_ET_KERNELS_PATH": str(image), "GGML_ET_ASYNC": mode}
                    run = host().run(self.program, PLUGIN, env=env, timeout=120)
                    self.assertEnded(run)
                    told = [line.partition(": ")[2] for line in run.stdout.splitlines()]
                    self.assertEqual(len(told), len(expected), run.tail())
                    for line, wanted in zip(told, expected):
                        self.assertIn(wanted, [line, None], run.tail())
                    lines = run.plugin_lines()
                    self.assertEqual(len([line for line in lines if said in line]), 1 + int(mode), run.tail(30))
                    self.assertEqual(len(lines), 1 + int(mode), run.tail(30))

    def test_a_model_whose_kernel_fails(self):
        image = self.image("rope", "src/rope.c", "et_rope", "*ET_PTR(volatile uint32_t, 16) = 0;")
        env = {"GGML_ET_KERNELS_PATH": str(image)}
        run = host().complete(model(), PROMPT, 8, "-c", 256, env=env, timeout=300)
        self.assertIsNotNone(run.code, "it hangs\n" + run.tail())
        self.assertGreaterEqual(run.code, 0, run.tail())
        self.assertRegex("\n".join(run.plugin_lines()), r"at or just after .* failed: .* in et_rope at rope\.c:\d+")
        self.assertNotIn("panicked", run.output)
