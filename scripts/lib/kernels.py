"""Builds device images from a copy of kernels/, without cargo, as build.rs does."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class Kernels:
    """The project's kernels, compiled once; images of changed copies reuse what the change does not concern."""

    def __init__(self, folder, plugin):
        """`folder`: an empty directory to work in. `plugin`: a plugin that cargo has built, for its assembler macros."""
        self.folder = Path(folder)
        self.prefix = os.environ.get("ET_TOOLCHAIN", "riscv64-unknown-elf-")
        macros = Path(plugin).parent.glob("build/ggml-et-*/out/et_instructions.inc")
        self.macros = max(macros, key=lambda path: path.stat().st_mtime)
        self.source = self.folder / "source/kernels"
        shutil.copytree(ROOT / "kernels", self.source)
        self.names = sorted(path.name for path in (self.source / "src").iterdir())
        self.plain = self.image("plain", {})

    def read(self, file):
        """The text of a file of kernels/."""
        return (self.source / file).read_text()

    def image(self, name, changed):
        """A directory for GGML_ET_KERNELS_PATH with an image in which the files `changed` (path: text) are other ones."""
        out = self.folder / name
        tree = out / "kernels"
        shutil.copytree(self.source, tree)
        for file, text in changed.items():
            (tree / file).write_text(text)
        plain = self.folder / "plain"

        def compiled(source):
            known = plain / f"{source}.o"
            if out != plain and not any(file in known.with_suffix(".d").read_text() for file in changed):
                return known
            object = out / f"{source}.o"
            self.gcc(
                f"@{tree}/compile.flags", "-Wno-error", f"-Wa,{self.macros}", f"-ffile-prefix-map={out}=.", "-MMD",
                "-I", tree / "include", "-c", tree / "src" / source, "-o", object,
            )
            return object

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, self.names))
        debug = out / "et-kernels.debug"
        self.gcc(f"@{tree}/link.flags", "-T", tree / "image.ld", *objects, "-lgcc", "-o", debug)
        subprocess.run([f"{self.prefix}objcopy", "--strip-all", debug, out / "et-kernels.elf"], check=True)
        return out

    def gcc(self, *args):
        done = subprocess.run([f"{self.prefix}gcc", *args], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the kernels don't compile:\n{done.stderr}")
