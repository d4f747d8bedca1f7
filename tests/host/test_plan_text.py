"""The plans of SmolLM2-135M's graphs are what they were; UPDATE_PLANS=1 writes them anew."""

import os
import re

from .common import ROOT, HostTest, host, model, stock


class PlanText(HostTest):
    def plan(self, *size):
        args = ["-m", model(), *size, "-r", 1, "--no-warmup", "-v", *stock.ON_ET]
        # Planning does not need the computation, nor its time.
        run = host().run("llama-bench", *args, env={"GGML_ET_DEVICE": "null", "GGML_ET_SHOW_PLANS": "1"}, timeout=600)
        self.assertEnded(run)
        # While it makes room for the largest graph, the host computes nothing: the last plan is the real one.
        return re.split(r"ET_GRAPH.*", run.output)[-2]

    def test_plans_of_a_model(self):
        for name, size in [("decode", ["-p", 0, "-n", 1]), ("prefill", ["-p", 64, "-n", 0])]:
            with self.subTest(graph=name):
                plan = "".join(f"{line}\n" for line in re.findall(r"ET_PLAN\|(.*)", self.plan(*size)))
                path = ROOT / f"tests/data/plan-{name}.txt"
                self.assertGreater(len(plan), 1000, "no plan was shown")
                if os.environ.get("UPDATE_PLANS") == "1":
                    path.write_text(plan)
                self.assertEqual(plan, path.read_text())
