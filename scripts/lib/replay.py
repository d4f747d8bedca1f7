"""Captured launches, and et-replay on them (docs/capture.md)."""

import json
import subprocess
from pathlib import Path

import stock


def program(plugin):
    """et-replay, beside the plugin that cargo has built."""
    command = ["cargo", "build", "--release", "--locked", "--package", "et-replay"]
    done = subprocess.run(command, cwd=stock.ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"et-replay does not build:\n{done.stderr[-2000:]}")
    return Path(plugin).with_name("et-replay")


def capture(host, folder, launch, shires, *size):
    """Launch number `launch` of a llama-bench run of SmolLM2-135M Q8_0."""
    env = {
        "GGML_ET_EMU_SHIRES": str(shires),
        "GGML_ET_CAPTURE": str(folder),
        "GGML_ET_CAPTURE_LAUNCHES": str(launch),
    }
    run = host.run(
        "llama-bench", "-m", stock.model("q8_0"), *size, "-r", 1, "--no-warmup", *stock.ON_ET, env=env, timeout=3600
    )
    found = sorted(folder.glob("launch-*"))
    if not found:
        raise RuntimeError(f"no launch was captured: {run.tail()}")
    return found[0]


def run(et_replay, launch, *options, whole=True):
    """What et-replay says of a launch. Unless it was shortened, it must leave the memory that was captured."""
    command = [et_replay, "--json", *map(str, options), launch]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=7200)
    try:
        result = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"et-replay failed: {done.stdout[-500:]}{done.stderr[-500:]}") from None
    if "error" in result or whole and not result["same"]:
        raise RuntimeError(f"a replay did not end as captured: {done.stdout[-500:]}")
    return result
