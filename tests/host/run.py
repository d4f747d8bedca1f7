"""Runs the tests of this folder and prints their counts. Called by scripts/test and scripts/test-full.

Usage: run.py [PATTERN ...]   only the tests whose names contain one of the patterns
"""

import sys
import time
import unittest
from pathlib import Path


class Result(unittest.TextTestResult):
    """Says how long each test took: they run programs, some for minutes."""

    def startTest(self, test):
        self.started = time.monotonic()
        super().startTest(test)
        self.stream.flush()

    def addSuccess(self, test):
        self.stream.write(f"{time.monotonic() - self.started:.0f} s, ")
        super().addSuccess(test)


def chosen(suite, patterns):
    """The tests of a suite whose names contain a pattern."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test, patterns)
        elif not patterns or any(pattern in test.id() for pattern in patterns):
            yield test


def main():
    here = Path(__file__).resolve().parent
    suite = unittest.defaultTestLoader.discover(str(here), top_level_dir=str(here.parent))
    suite = unittest.TestSuite(chosen(suite, sys.argv[1:]))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    # Several parts of one test may fail; each test counts once.
    bad = {getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors}
    failed, skipped = len(bad), len(result.skipped)
    print(f"host tests: {result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
