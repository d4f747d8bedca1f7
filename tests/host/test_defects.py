"""Strict mode finds the defects that are put into the kernels, and nothing in the kernels as they are."""

import subprocess
import tempfile

import kernels

from . import defects
from .common import FULL, PLUGIN, ROOT, HostTest, host, program

SEEDS = range(1, 6) if FULL else [1]


class Defects(HostTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.kernels = kernels.Kernels(folder.name, PLUGIN)
        cls.program = program(defects.HERE / "graphs.c", folder.name)
        listed = subprocess.run([cls.program, PLUGIN], check=True, stdout=subprocess.PIPE, text=True)
        cls.cases = listed.stdout.split()

    def compute(self, image, cases, shires, seed):
        env = {
            "GGML_ET_KERNELS_PATH": str(image), "GGML_ET_EMU": "strict", "GGML_ET_EMU_SEED": str(seed),
            "GGML_ET_EMU_SHIRES": str(shires),
        }  # fmt: skip
        return host().run(self.program, PLUGIN, *cases, env=env)

    def test_nothing_is_found_in_the_kernels(self):
        for shires in [1, 2, 5] if FULL else [1, 2]:
            for seed in SEEDS:
                with self.subTest(shires=shires, seed=seed):
                    run = self.compute(self.kernels.plain, self.cases, shires, seed)
                    self.assertEnded(run)
                    self.assertEqual([report.text for report in defects.reports(run.output)], [])
                    self.assertEqual(run.stdout.count(": computed"), len(self.cases), run.tail())

    def test_defects_are_found(self):
        for defect in defects.load():
            if not (FULL or defect.quick):
                continue
            with self.subTest(defect=defect.name):
                changed = defect.apply(self.kernels.read(defect.file))
                image = self.kernels.image(defect.name, {defect.file: changed})
                for seed in SEEDS:
                    found = defects.reports(self.compute(image, [defect.case], defect.shires, seed).output)
                    told = "\n".join(report.text for report in found) or "nothing"
                    caught = any(defects.catches(report, defect, image) for report in found)
                    self.assertTrue(caught, f"with seed {seed} strict mode reports:\n{told}")

    def test_the_list_fits_the_kernels(self):
        """Every defect still has its place, its case and its row in the documentation."""
        known = defects.load()
        self.assertEqual(len({defect.name for defect in known}), len(known))
        document = (ROOT / "docs/emulator.md").read_text()
        for defect in known:
            with self.subTest(defect=defect.name):
                defect.apply(self.kernels.read(defect.file))
                self.assertIn(defect.case, self.cases)
        table = "\n".join(defects.table(known))
        self.assertIn(table, document, "the table in docs/emulator.md is not what tests/host/defects.py prints")
