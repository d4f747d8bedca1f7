"""Launches are captured while a host computes, and et-replay runs them again with the same result."""

import json
import subprocess
import tempfile
from pathlib import Path

from .common import PLUGIN, PROMPT, HostTest, host, model

import replay


class Capture(HostTest):
    @classmethod
    def setUpClass(cls):
        cls.program = replay.program(PLUGIN)

    def et_replay(self, *args):
        """Exit status and output of et-replay."""
        run = subprocess.run([self.program, *map(str, args)], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout

    def generate(self, folder, launches, tokens=4):
        env = {"GGML_ET_CAPTURE": str(folder), "GGML_ET_CAPTURE_LAUNCHES": launches}
        return host().complete(model(), PROMPT, tokens, "-c", 512, env=env, timeout=1800)

    def test_decode_steps_replay(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder) / "new"
            run = self.generate(folder, "3-4")
            self.assertEnded(run)
            self.assertIn("Paris", run.stdout)
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["launch-00003", "launch-00004"])
            for threads in [1, 2]:
                code, text = self.et_replay("--json", "--commands", "--threads", threads, folder)
                self.assertEqual(code, 0, text)
                for line in text.splitlines():
                    launch = json.loads(line)
                    self.assertTrue(launch["same"], text)
                    operations = {(command["op"], command["kernel"]) for command in launch["commands"]}
                    self.assertIn(("MUL_MAT", "mul_mat_vec_q8_0"), operations)
                    self.assertIn("result_output", [command["tensor"] for command in launch["commands"]])
            code, text = self.et_replay("show", folder / "launch-00003")
            self.assertEqual(code, 0, text)
            self.assertRegex(text, r"mul_mat_vec_q8_0 .*blk\.0\.attn_q\.weight")
            code, text = self.et_replay("disasm", folder / "launch-00003", "et_main")
            self.assertRegex(text, r"; et_main at \w+\.c:\d+", "the image has its line table")
            # Captures of another run are not overwritten: the device does not open.
            self.assertRefused(self.generate(folder, "4"), "launch-00004", "exists already")

    def test_nowhere_to_write(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertRefused(self.generate(file.name, "1"), "GGML_ET_CAPTURE", "can't be written")

    def test_the_computation_goes_on_without_its_capture(self):
        """What is in its way costs the capture and one line, not the result."""
        with tempfile.TemporaryDirectory() as folder:
            blocked = Path(folder) / "launch-00002.part"
            blocked.write_text("in the way")
            run = self.generate(folder, "2-3")
            self.assertEnded(run)
            self.assertIn("Paris", run.stdout)
            said = [line for line in run.plugin_lines() if "not captured" in line]
            self.assertEqual(len(said), 1, run.tail())
