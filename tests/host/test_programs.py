"""Programs of llama.cpp that use a device in other ways than one text after the other."""

import contextlib
import json
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import defects
from .common import PROMPT, HostTest, full_only, host, model, stock

# Texts that go on in one way only, so that other batches, which round in other ways, change no word.
LISTS = {
    "One, two, three, four, five, six,": " seven, eight, nine",
    "1, 2, 3, 4, 5, 6,": " 7, 8, 9",
    "2, 4, 6, 8, 10,": " 12, 14",
    "a b c d e f g": " h i j k l m",
}
MODES = ["fast", "strict"]


class Server:
    """A llama-server that is asked over HTTP."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path, timeout=3600, **what):
        request = urllib.request.Request(self.url + path, json.dumps(what).encode() if what else None)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)

    def complete(self, prompt, tokens, **more):
        return self.ask("/completion", prompt=prompt, n_predict=tokens, temperature=0, **more)


@full_only
class Programs(HostTest):
    @contextlib.contextmanager
    def server(self, mode, *args):
        """A server with SmolLM2 on the device. When it is not needed any more it must end well and have nothing to report."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [host().bin / "llama-server", "-m", model(), "--port", port, "-c", 1024, *stock.ON_ET, *args]
        with tempfile.TemporaryFile("w+") as log:
            environment = host().environment(env={"GGML_ET_EMU": mode})
            process = subprocess.Popen(
                [*map(str, command)], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                server = Server(port)
                self.wait(process, server)
                yield server
                process.terminate()
                code = process.wait(timeout=300)
            finally:
                process.kill()
                process.wait()
                log.seek(0)
                text = log.read()
        run = stock.Run(command, code, text, "", 0)
        self.assertEnded(run)
        self.assertNothingReported(run)

    def wait(self, process, server):
        """Until it is ready: it computes a graph before, which takes long in strict mode."""
        end = time.monotonic() + 1800
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError):
                server.ask("/health", timeout=10)
                return
            time.sleep(0.2)
        self.fail(f"the server does not answer; it ended with {process.poll()}")

    def assertNothingReported(self, run):
        self.assertEqual([report.text for report in defects.reports(run.output)], [])
        self.assertNotRegex(run.output, r"ggml-et: .*failed", run.tail())

    def run_program(self, mode, name, *args, et=True):
        where = stock.ON_ET if et else ["--device", "none"]
        env = {"GGML_ET_EMU": mode} if et else {}
        run = host().run(name, "-m", model(), *where, *args, et=et, env=env, timeout=6 * 3600)
        self.assertEnded(run)
        self.assertNothingReported(run)
        return run

    def test_server_with_parallel_requests(self):
        for mode, tokens in zip(MODES, [6, 2]):
            with self.subTest(mode=mode), self.server(mode, "-np", 4) as server, ThreadPoolExecutor(8) as pool:
                # More than there are places: some wait.
                asked = [*LISTS] * (2 if mode == "fast" else 1)
                answers = pool.map(lambda prompt: server.complete(prompt, tokens), asked)
                for prompt, answer in zip(asked, answers):
                    self.assertEqual(answer["tokens_predicted"], tokens)
                    self.assertTrue(LISTS[prompt].startswith(answer["content"][:7]), (prompt, answer["content"]))

    def test_slots_are_saved_and_restored(self):
        for mode, tokens in zip(MODES, [8, 2]):
            with (
                self.subTest(mode=mode), tempfile.TemporaryDirectory() as folder,
                self.server(mode, "-np", 2, "--slot-save-path", folder, "--no-cache-idle-slots", "-cram", 0) as server,
            ):  # fmt: skip
                slot = {"id_slot": 0, "cache_prompt": True}
                prompt, other = list(LISTS)[:2]
                begun = prompt + server.complete(prompt, 2, **slot)["content"]
                saved = server.ask("/slots/0?action=save", filename="slot")
                self.assertTrue((Path(folder) / "slot").stat().st_size > 0 and saved["n_saved"] > 0, saved)
                straight = server.complete(begun, tokens, **slot)
                server.complete(other, 1, **slot)
                restored = server.ask("/slots/0?action=restore", filename="slot")
                self.assertEqual(restored["n_restored"], saved["n_saved"])
                answer = server.complete(begun, tokens, **slot)
                self.assertEqual(answer["content"], straight["content"])
                self.assertLess(answer["timings"]["prompt_n"], 4, "the prompt was computed again")

    def test_speculation_with_a_draft_model(self):
        """Both models are on the device. The draft changes how fast it goes, not the text."""
        for mode, tokens in zip(MODES, [16, 2]):
            with self.subTest(mode=mode):
                args = ["-p", next(iter(LISTS)), "-n", tokens, "--temp", 0, "-c", 256]
                draft = ["--spec-type", "draft-simple", "-md", model("q4_1"), "-ngld", 99, "-devd", "ET0"]
                run = self.run_program(mode, "llama-speculative-simple", *args, *draft)
                alone = self.run_program("fast", "llama-completion", *args, "-no-cnv")
                text = alone.stdout.strip()
                self.assertEqual(run.stdout.strip()[: len(text)], text)
                self.assertGreater(int(re.search(r"n_accept += (\d+)", run.output)[1]), 0, run.tail(30))

    def test_embeddings(self):
        args = ["-p", PROMPT, "--pooling", "mean", "--embd-output-format", "array", "-c", 256]
        cpu = json.loads(self.run_program("fast", "llama-embedding", *args, et=False).stdout)[0]
        for mode in MODES:
            with self.subTest(mode=mode):
                et = json.loads(self.run_program(mode, "llama-embedding", *args).stdout)[0]
                self.assertEqual(len(et), len(cpu))
                cosine = sum(a * b for a, b in zip(et, cpu)) / (sum(a * a for a in et) * sum(b * b for b in cpu)) ** 0.5
                self.assertGreater(cosine, 0.999)

    def test_batched_bench(self):
        for mode, parallel in zip(MODES, ["1,3", "2"]):
            with self.subTest(mode=mode):
                sizes = ["-c", 256, "-npp", 8, "-ntg", 2, "-npl", parallel, "--output-format", "jsonl"]
                run = self.run_program(mode, "llama-batched-bench", *sizes)
                rows = [json.loads(line) for line in run.output.splitlines() if line.startswith("{")]
                self.assertEqual([row["n_kv"] for row in rows], [10 * int(n) for n in parallel.split(",")])
