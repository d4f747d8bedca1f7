"""GGML_ET_PROFILE's timeline, and the device that computes nothing."""

import json
import tempfile
from pathlib import Path

from .common import PROMPT, HostTest, host, model, stock


class Profile(HostTest):
    def generate(self, folder, **env):
        env = {"GGML_ET_PROFILE": str(folder), **env}
        return host().complete(model(), PROMPT, 2, "-c", 256, env=env, timeout=1800)

    def test_every_command_is_on_the_timeline(self):
        for fusions in ["all", "none"]:
            with self.subTest(fusions=fusions), tempfile.TemporaryDirectory() as folder:
                folder = Path(folder) / "new"
                run = self.generate(folder, GGML_ET_FUSION=fusions)
                self.assertEnded(run)
                self.assertIn("Paris", run.stdout)
                events = json.loads((folder / "et_runtime_trace.json").read_text())
                commands = [graph.commands for graph in stock.graphs(run.output)]
                self.assertGreater(len(commands), 1, run.tail())
                self.assertEqual(len(events), sum(commands))
                kernels = json.loads((folder / "kernel_id.json").read_text())
                self.assertEqual({e["args"]["kernel"]: e["args"]["kernel_id"] for e in events}, kernels)
                self.assertEqual({event["ph"] for event in events}, {"X"})
                starts = [event["ts"] for event in events]
                self.assertEqual(starts, sorted(starts))
                self.assertTrue(all(event["dur"] >= 0 for event in events))
                # A command that another one's call has done has no time of its own.
                timed = [event["dur"] > 0 for event in events if event["cat"] == "MUL_MAT"]
                self.assertEqual(all(timed), fusions == "none")
                self.assertEqual(any(event["args"]["fused"] for event in events), fusions == "all")
                self.assertIn("MUL_MAT result_output", [event["name"] for event in events])

    def test_nowhere_to_write(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertRefused(self.generate(file.name), "GGML_ET_PROFILE", "can't be written")


class Null(HostTest):
    def test_nothing_is_computed(self):
        args = ["-m", model(), "-p", 32, "-n", 4, "-r", 1, "-v", *stock.ON_ET]
        run = host().run("llama-bench", *args, env={"GGML_ET_DEVICE": "null"}, timeout=300)
        self.assertEnded(run)
        self.assertRegex(run.output, r"ET0.*computes nothing")
        self.assertRegex(run.output, r"ET_GRAPH\|.*\|launches=1\|.*\|words=0\|cached=1")
        self.assertNotRegex(run.output, r"ET_EMU\|", "the emulator has worked")
