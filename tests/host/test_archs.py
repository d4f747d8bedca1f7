"""llama.cpp's tiny random models of many architectures: the device's logits against the CPU's."""

import re
import subprocess
import tempfile
from pathlib import Path

from .common import HostTest, full_only, host

# Its own program never loads plugins; a library that is loaded before it does.
LOADER = """
void ggml_backend_load_all(void);
__attribute__((constructor)) static void load(void) { ggml_backend_load_all(); }
"""
# Dense, Llama-like: computed on the device alone.
DENSE = """llama qwen2 qwen3 gemma gemma2 gemma3 phi3 mistral3 starcoder2 smollm3 olmo2 granite exaone internlm2 minicpm
stablelm command-r seed_oss""".split()


@full_only
class Architectures(HostTest):
    def rows(self, arch):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "loader.so"
            source = Path(folder) / "loader.c"
            source.write_text(LOADER)
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-o", library, source, f"-L{host().bin}", "-l:libggml.so",
                 f"-Wl,-rpath,{host().bin}"],
                check=True,
            )
            run = host().run(
                "test-llama-archs", "-s", 1, "-b", "ET0", *(["-a", arch] if arch else []),
                env={"LD_PRELOAD": str(library)}, timeout=6 * 3600,
            )
        self.assertIsNotNone(run.code, run.tail())
        self.assertGreaterEqual(run.code, 0, run.tail())
        return re.sub(r"\x1b\[[0-9;]*m", "", run.output).splitlines()

    def test_dense(self):
        for arch in DENSE:
            with self.subTest(arch=arch):
                found = [row for row in self.rows(arch) if re.search(r"\b(OK|FAIL)\b", row)]
                self.assertTrue(found, "it was not tested")
                self.assertEqual([row for row in found if "FAIL" in row], [])

    def test_none_crashes(self):
        rows = self.rows(None)
        self.assertRegex("\n".join(rows), r"Summary: ")
