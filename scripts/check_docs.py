#!/usr/bin/env python3
"""Runs the commands of README.md: every ```sh block, in order, in one scratch folder that sees the project's files.

usage: scripts/check_docs.py BUILD_BIN [FILE...]

A block runs with `bash -e`. Blocks of other kinds (text, json, console) are not run, nor are blocks that start the
project's own scripts (scripts/quickstart and scripts/test would run this again) or install packages.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
NOT_RUN = re.compile(r"scripts/(quickstart|test|dev)|\.ci/run|apt-get|git clone")
LIMIT_S = 300


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    binaries = pathlib.Path(sys.argv[1]).resolve()
    files = [pathlib.Path(f).resolve() for f in sys.argv[2:]] or [ROOT / "README.md"]
    ran, faults = 0, 0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("recipes", "scripts", "lib", "tests", "README.md"):
                if (ROOT / name).exists():
                    (pathlib.Path(folder) / name).symlink_to(ROOT / name)
            (pathlib.Path(folder) / "build").mkdir()
            (pathlib.Path(folder) / "build/bin").symlink_to(binaries)
            environment = dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
            for block in BLOCK.findall(file.read_text()):
                if NOT_RUN.search(block):
                    continue
                ran += 1
                try:
                    result = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", block], cwd=folder, env=environment,
                                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
                except subprocess.TimeoutExpired:
                    faults += 1
                    print(f"{file.name}: no end after {LIMIT_S} s:\n{block}")
                    continue
                if result.returncode != 0:
                    faults += 1
                    print(f"{file.name}: exit code {result.returncode}:\n{block}\n{result.stdout[-2000:]}"
                          f"{result.stderr[-2000:]}")
    print(f"{ran} blocks run: {faults} faults")
    return 1 if faults or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
