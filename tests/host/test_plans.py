"""Plans: the same logits however a graph is planned, and lists that stay on the device from token to token."""

import array
import re
import tempfile
from pathlib import Path

from .common import HERE, HostTest, full_only, host, model, program, stock, tiny_model

# By their names in GGML_ET_FUSION.
FUSIONS = ["mul_mat_glu", "mul_mat_add", "norm", "rope_set_rows", "elementwise", "mul_mat_shared_input"]


class Plans(HostTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.program = program(HERE / "logits.c", cls.folder)

    def logits(self, *words, env=None, timeout=3600):
        """The logits of all steps, and for each word of the command line the graphs that it computed."""
        out = self.folder / "logits.bin"
        run = host().run(self.program, host().bin, out, *words, env=env, timeout=timeout)
        self.assertEnded(run)
        graphs = [stock.graphs(log) for log in run.stderr.split("WORD ")[1:]]
        logits = array.array("f", out.read_bytes())
        self.assertTrue(len(logits) > 0 and all(abs(value) < 1e4 for value in logits), "these are no logits")
        return logits, graphs

    def assertAlike(self, one, other, limit=0):
        """The same bits, or with a limit a mean square of the difference below that part of the logits' own."""
        self.assertEqual(len(one), len(other))
        if limit == 0:
            self.assertEqual(one.tobytes(), other.tobytes(), f"they differ by {error(one, other):.2e}")
        else:
            self.assertLess(error(one, other), limit)

    def test_the_same_bits_however_it_is_planned(self):
        words = [f"0={model()}", "0p20", "0s3"]
        expected, graphs = self.logits(*words)
        steps = [(graph.launches, graph.words, graph.cached) for graph in graphs[2]]
        self.assertEqual(steps[1:], [(1, 0, 1), (1, 0, 1)], "a token is not one launch of a list that is there")
        last = graphs[2][2]
        for name, value, seen in [
            ("GGML_ET_PLANS", "0", lambda graph: graph.cached == 0 and graph.words > 0),
            ("GGML_ET_ASYNC", "0", lambda graph: graph.cached == 1),
            ("GGML_ET_UBERKERNEL", "0", lambda graph: graph.launches == last.commands),
            ("GGML_ET_FUSION", "none", lambda graph: graph.meetings > last.meetings),
        ]:
            with self.subTest(variable=name):
                logits, other = self.logits(*words, env={name: value})
                self.assertTrue(seen(other[2][2]), f"{name}={value} changes nothing: {other[2][2]}")
                self.assertAlike(logits, expected)

    def test_steps_send_nothing(self):
        """Lists go to the device when llama.cpp changes the padded length of its cache: after the prompt and at 256 tokens."""
        _, graphs = self.logits(f"0={tiny_model()}", "0p248", "0s24")
        # This model has a part on the CPU: a step is several graphs.
        self.assertEqual({graph.launches for graph in graphs[2]}, {1})
        size = len(graphs[2]) // 24
        steps = [graphs[2][i : i + size] for i in range(0, 24 * size, size)]
        anew = [i for i, step in enumerate(steps) if any(graph.words or not graph.cached for graph in step)]
        self.assertEqual(anew, [0, 8])
        for graph in steps[8]:
            self.assertLess(graph.words, graph.commands * 512 / 8 / 4, "more was sent than what has changed")

    def test_contexts_in_turns_keep_their_plans(self):
        path = tiny_model()
        alone = self.logits(f"0={path}", "0p9", *["0s1"] * 4)[0]
        words = [f"0={path}", f"1={path}", "0p9", "1p9", *["0s1", "1s1"] * 4]
        both, graphs = self.logits(*words)
        row = len(alone) // 5
        for place in [0, 1]:
            mine = array.array("f")
            for step in range(5):
                mine.extend(both[(2 * step + place) * row :][:row])
            self.assertAlike(mine, alone)
        for word, computed in list(zip(words, graphs))[6:]:
            with self.subTest(word=word):
                self.assertEqual({(graph.cached, graph.words) for graph in computed}, {(1, 0)})

    def test_models_at_the_same_addresses(self):
        """A model is freed and another one takes its place, while a third keeps the device open."""
        tiny, one, other = tiny_model(), model("q8_0"), model("q4_1")
        first, second = (self.logits(f"0={path}", "0p9", "0s2")[0] for path in [one, other])
        words = [word for path in [one, other, one] for word in [f"0={path}", "0p9", "0s2"]]
        logits, _ = self.logits(f"1={tiny}", "1p5", *words)
        self.assertAlike(logits[-3 * len(first) :], first + second + first)

    def test_fusions_are_all_tried(self):
        run = host().run("llama-completion", "--list-devices", env={"GGML_ET_FUSION": "x"})
        found = re.search(r"GGML_ET_FUSION is 'x', but must be all, none, or some of (.*) with commas", run.output)
        self.assertTrue(found, run.tail())
        self.assertEqual(found[1].split(", "), FUSIONS)

    @full_only
    def test_every_fusion(self):
        for form in ["q8_0", "q4_0", "q4_1", "f16"]:
            for shires in ["1", "5"]:
                words = [f"0={model(form)}", "0p20", "0s2"]
                env = {"GGML_ET_EMU_SHIRES": shires}
                expected = self.logits(*words, env={**env, "GGML_ET_FUSION": "none"})[0]
                for value in ["all", *FUSIONS, *(f"-{name}" for name in FUSIONS)]:
                    with self.subTest(form=form, shires=shires, fusions=value):
                        self.assertAlike(self.logits(*words, env={**env, "GGML_ET_FUSION": value})[0], expected)

    @full_only
    def test_every_number_of_shires(self):
        words = [f"0={model()}", "0p20", "0s2"]
        expected = self.logits(*words)[0]
        for shires in [2, 8, 31, 32]:
            env = {"GGML_ET_EMU_SHIRES": str(shires)}
            all_on = self.logits(*words, env=env)[0]
            with self.subTest(shires=shires):
                self.assertAlike(all_on, expected, CLOSE)
            for name, value in [("GGML_ET_FUSION", "none"), ("GGML_ET_UBERKERNEL", "0"), ("GGML_ET_PLANS", "0")]:
                with self.subTest(shires=shires, variable=name):
                    self.assertAlike(self.logits(*words, env={**env, name: value})[0], all_on)


# Products are summed in another order on another number of shires.
CLOSE = 1e-6


def error(one, other):
    """The mean square of the difference, as a part of that of `other`."""
    return sum((a - b) ** 2 for a, b in zip(one, other)) / sum(b * b for b in other)
