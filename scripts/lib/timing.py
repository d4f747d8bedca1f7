"""Modelled cycles of captured launches (docs/timing.md)."""

import json
import re
import shutil

import replay

SHIRES = 32

# What the DRAM is taken to give at best: `DRAM_BYTES` per cycle times `DRAM_SHARE` (docs/timing.md).
DRAM_BYTES_PER_CYCLE = 183.7 * 0.6

# What a launch's argument block begins with: the address of the commands, and how many there are.
COUNT = slice(16, 32)


def capture(host, folder, what):
    """The launch of a SmolLM2-135M Q8_0 token, or of a prompt of 512, on all shires."""
    size, launch = (["-p", 512, "-n", 0], 1) if what == "prefill" else (["-p", 0, "-n", 3], 3)
    return replay.capture(host, folder / what, launch, SHIRES, *size)


def layers(manifest, count):
    """How many commands the first `count` layers are: the names of their results end with the layer's number."""
    for index, command in enumerate(manifest["labels"]["commands"]):
        if command["operands"] and re.search(rf"-{count}$", command["operands"][0]["name"]):
            return index
    raise RuntimeError(f"the launch has no layer {count}")


def shorten(launch, count):
    """A copy of a captured launch that ends after `count` commands."""
    short = launch.with_name(f"{launch.name}-{count}")
    shutil.copytree(launch, short)
    manifest = json.loads((short / "capture.json").read_text())
    arguments = manifest["launch"]["arguments"]
    less = arguments[: COUNT.start] + count.to_bytes(8, "little").hex() + arguments[COUNT.stop :]
    manifest["launch"]["arguments"] = less
    (short / "capture.json").write_text(json.dumps(manifest))
    return short


def kind(command):
    """Commands of a kind take the same time: the same kernel and operation, with a result of the same size."""
    result = command["operands"][0]["bytes"] if command["operands"] else 0
    return command["kernel"], command["op"], result


def profile(program, launch):
    """What the model says of a launch."""
    return replay.run(program, launch, "--timing", "--commands", whole=False)["timing"]


def by_kind(manifest, timing):
    """Cycles by kind of command, of the last of its kind."""
    commands = manifest["labels"]["commands"]
    return {kind(command): measured["cycles"] for command, measured in zip(commands, timing["commands"])}


def manifest_of(launch):
    return json.loads((launch / "capture.json").read_text())


def prefill_cycles(program, launch, decode, decode_timing):
    """A prompt's launch from its first two layers: every further command takes what the last of its kind took. Of what
    comes behind the layers, only the last token is computed, as in a token's launch `decode`."""
    manifest = manifest_of(launch)
    count = layers(manifest, 2)
    timing = profile(program, shorten(launch, count))
    known = {**by_kind(manifest_of(decode), decode_timing), **by_kind(manifest, timing)}
    total = sum(command["cycles"] for command in timing["commands"])
    for command in manifest["labels"]["commands"][count:]:
        if kind(command) not in known:
            raise RuntimeError(f"no command like {kind(command)} was measured")
        total += known[kind(command)]
    return total


def overhead(timing):
    """The share of a launch's cycles in which no command's critical hart was at work (docs/timing.md)."""

    def work(command):
        return sum(cycles for cause, cycles in command["spent"].items() if cause != "sync")

    at_work = sum(min(command["cycles"], work(command)) for command in timing["commands"])
    return 1 - at_work / timing["cycles"]


def bytes_to_read(manifest):
    """Bytes that a token's launch must read: the sources that none of its commands writes to, each byte once. So the cache does
    not count, of which hardly anything is in use."""
    commands = [[span(operand) for operand in command["operands"]] for command in manifest["labels"]["commands"]]
    written = [operands[0] for operands in commands if operands]
    sources = {source for operands in commands for source in operands[1:]}
    total = reached = 0
    for begin, end in sorted(sources):
        if any(start < end and begin < stop for start, stop in written):
            continue
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def span(operand):
    begin = int(operand["address"], 16)
    return begin, begin + operand["bytes"]


def figures(host, plugin, folder):
    """Of a token: its cycles, the share of them that is overhead, how many times the DRAM's time for it that is, and how often
    harts wait inside kernels; and the cycles of a prompt of 512."""
    program = replay.program(plugin)
    decode, prefill = capture(host, folder, "decode"), capture(host, folder, "prefill")
    timing = profile(program, decode)
    return {
        "decode": timing["cycles"],
        "overhead": overhead(timing),
        "roofline": timing["cycles"] / (bytes_to_read(manifest_of(decode)) / DRAM_BYTES_PER_CYCLE),
        "waits": sum(command["waits"] for command in timing["commands"]),
        "prefill": prefill_cycles(program, prefill, decode, timing),
    }
