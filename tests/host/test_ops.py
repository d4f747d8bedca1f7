"""llama.cpp's own tests of single operations, with its own tolerances."""

import sys

from .common import FULL, HOSTS, HostTest, full_only, host, stock

import ops


class Operations(HostTest):
    def setUp(self):
        self.cpu, self.et = {}, {}
        for name in HOSTS:
            self.cpu[name] = ops.support(ops.support_csv(host(name), "CPU"))
            self.et[name] = ops.support(ops.support_csv(host(name), "ET0"))

    def promised(self, name):
        return [case for case, ok in self.cpu[name].items() if ok and ops.promised(*case)]

    def assertAllPass(self, result, wanted=None):
        """Every case that was run passed; `wanted` of them were run."""
        print(f"  {len(result.passed)} cases in {result.seconds:.0f} s", file=sys.stderr, flush=True)
        self.assertFalse(result.crashed, result.run.tail())
        self.assertEqual(result.failed, [], f"{len(result.failed)} cases fail")
        if wanted is not None:
            self.assertEqual(result.unsupported, [])
            self.assertGreaterEqual(len(result.passed), wanted)

    def test_nothing_promised_is_missing(self):
        for name in HOSTS:
            with self.subTest(host=name):
                absent = ops.missing(self.cpu[name], self.et[name])
                self.assertEqual(absent[:20], [], f"{len(absent)} promised cases are not supported")

    def test_hosts_agree(self):
        """One plugin gives both hosts the same answer about the same case."""
        one, other = (self.et[name] for name in HOSTS)
        self.assertEqual([case for case in one.keys() & other.keys() if one[case] != other[case]], [])

    def test_sample(self):
        for name, number in zip(HOSTS, [12, 4]):
            with self.subTest(host=name):
                chosen = ops.sample(self.promised(name), number, 4_000_000)
                self.assertAllPass(ops.test(host(name), chosen), len(set(chosen)))

    def test_sample_with_many_shires(self):
        for shires in [2, 8, 31, 32] if FULL else [2, 31]:
            with self.subTest(shires=shires):
                chosen = ops.sample(self.promised(stock.NEWEST), 1, 100_000)
                env = {"GGML_ET_EMU_SHIRES": str(shires)}
                self.assertAllPass(ops.test(host(), chosen, env=env), len(set(chosen)))

    def test_two_contexts_at_once(self):
        chosen = ops.sample(self.promised(stock.NEWEST), 1, 100_000)
        self.assertAllPass(ops.test(host(), chosen, workers=2), len(set(chosen)))

    @full_only
    def test_everything_claimed(self):
        for name in HOSTS:
            with self.subTest(host=name):
                self.assertAllPass(ops.test(host(name), timeout=12 * 3600))
