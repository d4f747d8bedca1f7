"""Mean KL divergence of logits, measured by stock llama-perplexity against the F32 dequantisation of the same weights."""

import hashlib
import os
import re
from pathlib import Path

import stock


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "ggml-et/kld"


def threads():
    return str(len(os.sched_getaffinity(0)))


def base(host, form, context, chunks):
    """The file of reference log-probabilities: F32 weights on the CPU. Kept, since it depends on nothing of ours."""
    text = hashlib.sha256(stock.CORPUS.read_bytes()).hexdigest()[:12]
    path = cache() / f"{host.name}-{form}-{text}-c{context}x{chunks}.bin"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.tmp")
        run = host.run(
            "llama-perplexity", "-m", stock.model(f"{form}-f32"), "-f", stock.CORPUS, "-c", context, "-b", context,
            "--chunks", chunks, "-t", threads(), "--kl-divergence-base", partial, et=False, timeout=1800,
        )
        if run.code != 0 or not partial.exists():
            raise RuntimeError(f"no reference logits: {run.tail()}")
        os.replace(partial, path)
    return path


def mean(host, form, context, chunks, et, ubatch=512, flash="on", env=None, timeout=7200):
    """Mean KL divergence over `chunks` texts of `context` tokens, of which the second half counts."""
    where = stock.ON_ET if et else []
    run = host.run(
        "llama-perplexity", "-m", stock.model(form), "-f", stock.CORPUS, "-c", context, "-b", context, "-ub", ubatch,
        "-fa", flash, "-t", threads(), "-lv", "4", "--kl-divergence-base", base(host, form, context, chunks),
        "--kl-divergence", *where, et=et, env=env, timeout=timeout,
    )
    if et and not re.search(r"ET0 model buffer size", run.output):
        raise RuntimeError(f"the model was not on ET0: {run.tail()}")
    found = re.search(r"Mean\s+KLD:\s*(-?[\d.]+|nan|-?inf)", run.output)
    if run.code != 0 or not found:
        raise RuntimeError(f"no KL divergence: {run.tail()}")
    return float(found[1])
