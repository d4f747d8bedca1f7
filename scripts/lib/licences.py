"""Checks that every crate in the plugin may be linked under the project's licences, and that each one is named.

The allowed licences are those of deny.toml, for every crate that the build uses.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

TARGET = "x86_64-unknown-linux-gnu"
ROOT = Path(__file__).resolve().parent.parent.parent


def allowed_by(expression, allowed):
    """Whether an SPDX expression can be met: one side of each OR, both of each AND."""
    text = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    words = re.sub(r"(\S+) WITH (\S+)", r"\1_WITH_\2", text).split()
    known = {name.replace(" WITH ", "_WITH_") for name in allowed}
    python = [{"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(word, str(word in known)) for word in words]
    return bool(words) and eval(" ".join(python), {"__builtins__": {}})


def linked():
    """The crates of other people that are part of the plugin, by name and licence: no build tools, no macros."""
    command = ["cargo", "tree", "--locked", "--package", "ggml-et", "--edges", "normal,no-proc-macro", "--prefix", "none",
               "--format", "{p}|{l}", "--target", TARGET]
    text = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        package, licence = line.removesuffix(" (*)").split("|")
        if "(/" not in package:  # a crate of this tree has its path there
            found[package.split()[0]] = licence
    return found


def main():
    with open(ROOT / "deny.toml", "rb") as file:
        allowed = set(tomllib.load(file)["licenses"]["allow"])
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    notices = (ROOT / "THIRD-PARTY.md").read_text()
    wrong = []
    for package in metadata["packages"]:
        licence = package["license"] or ""
        if not allowed_by(licence, allowed):
            wrong.append(f"{package['name']}: licence '{licence}' is not allowed by deny.toml")
    for name, licence in linked().items():
        if not re.search(rf"^\| {re.escape(name)} \|", notices, re.MULTILINE):
            wrong.append(f"{name} ({licence}) is linked into the plugin; name it in THIRD-PARTY.md")
    print(*wrong or [f"{len(metadata['packages'])} packages, all allowed and named"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
