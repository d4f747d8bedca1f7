"""The logits are as close to those of the unquantised weights as the CPU's are."""

import sys

from .common import HostTest, full_only, host

import kld


class Divergence(HostTest):
    def check(self, form, context, chunks, **how):
        et = kld.mean(host(), form, context, chunks, et=True, **how)
        cpu = kld.mean(host(), form, context, chunks, et=False, **how)
        print(f"  {form} {how}: mean KL divergence {et:.6f}, CPU {cpu:.6f}", file=sys.stderr, flush=True)
        self.assertLessEqual(et, 0.0005 if form == "f16" else 1.1 * cpu)

    def test_q8_0(self):
        self.check("q8_0", 256, 1, ubatch=128)

    @full_only
    def test_q8_0_2000_tokens(self):
        for ubatch in [17, 512]:
            for flash in ["on", "off"]:
                with self.subTest(ubatch=ubatch, flash=flash):
                    self.check("q8_0", 512, 4, ubatch=ubatch, flash=flash, timeout=6 * 3600)

    @full_only
    def test_q8_0_small_batches(self):
        for ubatch in [1, 15, 16]:
            with self.subTest(ubatch=ubatch):
                self.check("q8_0", 256, 1, ubatch=ubatch)

    @full_only
    def test_forms(self):
        for form in ["q4_0", "q4_1", "f16"]:
            with self.subTest(form=form):
                self.check(form, 512, 2, ubatch=64)
