"""Real graphs and llama.cpp's own operation tests in strict mode: nothing is reported, and results stay right."""

from . import defects
from .common import FULL, PROMPT, HostTest, full_only, host, model, stock

import ops

# 32 tokens of prompt.
LONG = (PROMPT + " Paris, and the capital of Italy is Rome. " * 4)[:140]


class Strict(HostTest):
    def generate(self, prompt, tokens, seed, shires=1):
        env = {"GGML_ET_EMU": "strict", "GGML_ET_EMU_SEED": str(seed), "GGML_ET_EMU_SHIRES": str(shires)}
        run = host().complete(model(), prompt, tokens, "-c", 256, env=env, timeout=6 * 3600)
        self.assertEnded(run)
        self.assertEqual([report.text for report in defects.reports(run.output)], [])
        return run.stdout

    def test_text(self):
        self.assertIn("Paris", self.generate(PROMPT, 1, seed=1))

    @full_only
    def test_prompt_and_steps_under_many_seeds(self):
        for shires in [1, 2, 32]:
            for seed in range(20):
                with self.subTest(shires=shires, seed=seed):
                    # The prompt gives the first token, 20 steps the others.
                    self.generate(LONG, 21, seed, shires)

    def test_operations(self):
        """A case of each kind, small ones; each with a seed of its own."""
        cpu, et = (ops.support(ops.support_csv(host(), backend)) for backend in ["CPU", "ET0"])
        claimed = [case for case, ok in cpu.items() if ok and et.get(case)]
        for seed, limit in [(1, 200_000), (2, 200_000)] if FULL else [(1, 20_000)]:
            with self.subTest(seed=seed):
                chosen = ops.sample(claimed, 1, limit)
                env = {"GGML_ET_EMU": "strict", "GGML_ET_EMU_SEED": str(seed)}
                result = ops.test(host(stock.NEWEST), chosen, env=env)
                self.assertFalse(result.crashed, result.run.tail())
                self.assertEqual(result.failed, [], result.run.tail(60))
                self.assertEqual(len(result.passed), len(set(chosen)))
