"""The plugin loads in every pinned host, and does nothing unless it is asked to."""

import re
import subprocess

from .common import HOSTS, PLUGIN, HostTest, host, model


class Load(HostTest):
    def test_emulator_is_listed(self):
        for name in HOSTS:
            with self.subTest(host=name):
                run = host(name).run("llama-completion", "--list-devices")
                self.assertEnded(run)
                self.assertRegex(run.output, r"\bET0: ")
                self.assertNotRegex(run.output, r"\bET1: ")

    def test_no_device_without_board_or_wish(self):
        for name in HOSTS:
            with self.subTest(host=name):
                run = host(name).run("llama-completion", "--list-devices", env={"GGML_ET_DEVICE": None})
                self.assertEnded(run)
                self.assertNotRegex(run.output, r"\bET\d: ")

    def test_text_is_the_same_as_without_the_plugin(self):
        args = ["-m", model("q4_1"), "-no-cnv", "-p", "One, two, three,", "-n", 8, "--temp", 0, "-t", 1]
        with_plugin = host().run("llama-completion", *args, env={"GGML_ET_DEVICE": None})
        without = host().run("llama-completion", *args, et=False)
        self.assertEnded(with_plugin)
        self.assertEqual(with_plugin.stdout, without.stdout)

    def test_symbols(self):
        """Nothing of ggml is left for the dynamic linker, nothing but the two entries is offered."""
        names = subprocess.run(["nm", "-D", PLUGIN], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(re.findall(r" U (\w*(?:ggml|llama)\w*)", names), [])
        self.assertEqual(sorted(re.findall(r" T (\w+)", names)), ["ggml_backend_init", "ggml_backend_score"])
        needed = subprocess.run(["readelf", "-d", PLUGIN], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertNotRegex(needed, r"NEEDED.*(ggml|llama)")
