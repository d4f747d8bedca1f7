"""Text is generated on the device, in the ways in which users ask for it."""

from .common import FULL, HOSTS, PROMPT, HostTest, full_only, host, stock, model

LONG = stock.CORPUS.read_text().split("\n\n")


class Generation(HostTest):
    def text(self, name=stock.NEWEST, form="q8_0", tokens=6, args=(), env=None, timeout=1800):
        run = host(name).complete(model(form), PROMPT, tokens, "-c", 512, *args, env=env, timeout=timeout)
        self.assertEnded(run)
        return run

    def test_every_layer_on_the_device(self):
        for name in HOSTS:
            with self.subTest(host=name):
                run = self.text(name)
                self.assertOnDevice(run)
                self.assertIn("Paris", run.stdout)

    def test_without_flash_attention(self):
        run = self.text(args=["-fa", "off"], tokens=3)
        self.assertOnDevice(run)
        self.assertIn("Paris", run.stdout)

    def test_forms(self):
        for form in ["q4_1", "q4_0", "f16"] + (["bf16", "f32"] if FULL else []):
            with self.subTest(form=form):
                run = self.text(form=form, tokens=3)
                self.assertOnDevice(run)
                # Made from Q4_1, Q4_0 has lost the capital, on the CPU too.
                self.assertRegex(run.stdout, PROMPT + (r" \w+" if form == "q4_0" else r".*Paris"))

    def test_cache_types(self):
        types = [("q8_0", "q4_0")]
        if FULL:
            types += [(t, t) for t in "f32 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1".split()]
        for k, v in types:
            with self.subTest(k=k, v=v):
                run = self.text(args=["-ctk", k, "-ctv", v, "-fa", "on"], tokens=3)
                self.assertIn("Paris", run.stdout)

    def test_without_memory_mapping(self):
        run = self.text(args=["-lm", "none"], tokens=3)
        self.assertIn("Paris", run.stdout)

    def test_some_layers(self):
        """A model split between the CPU and the device."""
        run = self.text(args=["-ngl", "9"], tokens=3)
        self.assertIn("Paris", run.stdout)

    @full_only
    def test_context_shift(self):
        for cache in ["f16", "q8_0"]:
            with self.subTest(cache=cache):
                prompt = " ".join(LONG[1:3])[:900]
                run = host().complete(
                    model(), prompt, 160, "-c", 256, "--context-shift", "-ctk", cache, timeout=3600
                )
                self.assertEnded(run)
                self.assertGreater(len(run.stdout), len(prompt) + 200)

    @full_only
    def test_prompt_in_small_batches(self):
        run = host().complete(model(), LONG[3], 8, "-ub", 17, timeout=3600)
        self.assertEnded(run)
        self.assertOnDevice(run)

    @full_only
    def test_any_number_of_shires(self):
        texts = {n: self.text(tokens=8, env={"GGML_ET_EMU_SHIRES": str(n)}).stdout for n in [1, 2, 8, 31, 32]}
        self.assertEqual(len(set(texts.values())), 1, texts)
