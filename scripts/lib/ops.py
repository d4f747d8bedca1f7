"""What stock `test-backend-ops` says about the plugin: which cases exist, which are supported, which pass."""

import collections
import csv
import hashlib
import io
import re

WEIGHTS = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}
CACHE = WEIGHTS | {"iq4_nl", "q5_0", "q5_1"}
COPIED = CACHE | {"i32", "i16"}

UNARY = (
    "ABS SGN NEG STEP TANH ELU RELU SIGMOID GELU GELU_QUICK GELU_ERF SILU HARDSWISH HARDSIGMOID EXP EXPM1 SOFTPLUS "
    "XIELU FLOOR CEIL ROUND TRUNC"
).split()
GLU = "REGLU GEGLU SWIGLU SWIGLU_OAI SWIGLU_CLAMP GEGLU_ERF GEGLU_QUICK".split()

# The operations of the Llama family that the plugin promises, each with the types that it promises for a parameter of
# the case's name. A case of other types is still tested where it is supported, but it is not missed where it is not.
FAMILIES = {
    **{name: {"type": {"f32", "f16"}} for name in ["ADD", "SUB", "MUL", "DIV", "CLAMP", *UNARY, *GLU]},
    **{name: {} for name in ["SCALE", "SUM_ROWS", "RMS_NORM", "ROPE", "SOFT_MAX"]},
    "GET_ROWS": {"type": CACHE | {"i32"}},
    "SET_ROWS": {"type_dst": CACHE},
    "CPY": {"type_src": COPIED, "type_dst": COPIED},
    "CONT": {"type": COPIED},
    "DUP": {"type": COPIED},
    "MUL_MAT": {"type_a": WEIGHTS},
    "FLASH_ATTN_EXT": {"type_K": {"f16"}, "type_V": {"f16"}},
}


def promised(op, params):
    """Whether a case belongs to the families and types above."""
    types = FAMILIES.get(op)
    return types is not None and all(
        (found := re.search(rf"\b{key}=(\w+)", params)) is None or found[1] in allowed for key, allowed in types.items()
    )


class Missing(Exception):
    """The device was not there, or the program failed."""


def support_csv(host, backend):
    """The text of `test-backend-ops support --output csv` for one backend."""
    run = host.run("test-backend-ops", "support", "--output", "csv", "-b", backend, et=backend != "CPU")
    if run.code != 0 or f'"{backend}",' not in run.stdout:
        raise Missing(f"no answer for backend {backend}: {run.tail()}")
    return run.stdout


def support(text):
    """A support CSV as a dict: (operation, parameters) -> supported."""
    return {(row["op_name"], row["op_params"]): row["supported"] == "1" for row in csv.DictReader(io.StringIO(text))}


def missing(cpu, et):
    """The promised cases that the CPU backend supports and ET0 does not."""
    return [case for case, ok in cpu.items() if ok and promised(*case) and not et.get(case, False)]


SIZES = set("m n k kv nb nh hsk bs nr nr23 ne ne_a ne_src r be1".split())


def size(params):
    """A rough measure of the work in a case: the product of its sizes. It keeps a sample affordable."""
    total = 1
    for name, value in re.findall(r"\b(\w+)=\[?(\d+(?:,\d+)*)", params):
        if name in SIZES:
            for number in value.split(","):
                total *= max(int(number), 1)
    return total


# Operations with more kinds of cases than a few can stand for: how many times as many to take.
VARIED = {"MUL_MAT": 3, "FLASH_ATTN_EXT": 6, "ROPE": 6, "SOFT_MAX": 6}


def sample(cases, per_group, limit):
    """A fixed choice of cases: from each operation and set of types the same number, none larger than the limit.

    The order within a group is by a hash of the case, so that it does not depend on the order of the host's list.
    """
    groups = collections.defaultdict(list)
    for op, params in cases:
        if size(params) <= limit:
            groups[op, *re.findall(r"\btype\w*=(\w+)", params)].append((op, params))
    chosen = []
    for (op, *_), group in groups.items():
        group.sort(key=lambda case: hashlib.sha256(repr(case).encode()).digest())
        chosen += group[: per_group * VARIED.get(op, 1)]
    return chosen


# The kernel takes no longer argument than 128 KiB.
ARGUMENT = 100_000


class Result:
    """The cases of one or several runs of `test-backend-ops test`, and the run that ended last."""

    def __init__(self):
        self.passed, self.failed, self.unsupported = [], [], []
        self.seconds = 0
        self.crashed = False
        self.run = None

    def add(self, run):
        """Reads what a run printed. The host logs to standard error; results are on standard output, in colours."""
        text = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout)
        for line in text.splitlines():
            found = re.match(r"\s*(\w+\(.*\)): (.*)$", line)
            if not found:
                continue
            case, verdict = found[1], found[2]
            if "not supported" in verdict:
                self.unsupported.append(case)
            elif re.search(r"\bOK\b", verdict):
                self.passed.append(case)
            else:
                self.failed.append(f"{case}: {verdict}")
        self.seconds += run.seconds
        self.run = run
        # Status 1 is that of failed cases.
        self.crashed = run.code not in (0, 1) or "tests passed" not in text


def test(host, only=None, workers=1, env=None, timeout=3600):
    """Runs `test-backend-ops test -b ET0`. `only`: cases (operation, parameters); all without it."""
    args = [] if workers == 1 else ["-j", workers]
    filters = [[]]
    if only is not None:
        length, chunk = 0, []
        for op, params in only:
            name = f"{op}({params})"
            if length + len(name) > ARGUMENT:
                filters.append(["-o", ",".join(chunk)])
                length, chunk = 0, []
            length += len(name) + 1
            chunk.append(name)
        filters = filters[1:] + [["-o", ",".join(chunk)]]
    result = Result()
    for chosen in filters:
        result.add(host.run("test-backend-ops", "test", "-b", "ET0", *args, *chosen, env=env, timeout=timeout))
        if result.crashed:
            break
    return result
