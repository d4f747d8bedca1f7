"""llama.cpp's tiny random models of many architectures: the device's logits against the CPU's."""

import re

from .common import FULL, HostTest, full_only, host, loader

# Dense, Llama-like: computed on the device alone.
DENSE = """llama qwen3 gemma3 deci baichuan stablelm qwen qwen2 phi2 phi3 internlm2 minicpm gemma gemma2 starcoder2 xverse
command-r cohere2 olmo olmo2 glm4 granite exaone exaone4 smollm3 arcee mistral3 seed_oss hunyuan-dense apertus""".split()


class Architectures(HostTest):
    def rows(self, arch):
        # The program's log thread may not have written the last lines when it ends: then it runs again.
        for _ in range(12):
            run = host().run(
                "test-llama-archs", "-s", 1, "-b", "ET0", *(["-a", arch] if arch else []),
                env={"LD_PRELOAD": str(loader())}, timeout=6 * 3600,
            )
            self.assertEqual(run.code, 0, run.tail())
            if "Summary: " in run.output:
                break
        self.assertIn("Summary: ", run.output)
        return re.sub(r"\x1b\[[0-9;]*m", "", run.output).splitlines()

    def agree(self, rows):
        found = [row for row in rows if re.search(r"\b(OK|FAIL)\b", row)]
        self.assertTrue(found, "nothing was tested\n" + "\n".join(rows[-10:]))
        self.assertEqual([row for row in found if "FAIL" in row], [])

    def test_dense(self):
        for arch in DENSE if FULL else DENSE[:3]:
            with self.subTest(arch=arch):
                self.agree(self.rows(arch))

    @full_only
    def test_all(self):
        """What the device does not have falls back to the CPU, without a crash and with the same result."""
        self.agree(self.rows(None))
