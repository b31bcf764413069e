#!/usr/bin/env python3
"""Every header compiles alone.

A header that its own .cpp includes first is proved by the build; the others are compiled here, and the results kept in
build/headers by content, so that a second run costs nothing.
"""
import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEARCH = [ROOT / "lib", ROOT, ROOT / "tests"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
ANY_INCLUDE = re.compile(r'^\s*#\s*include', re.M)
# Headers of the CPU kernels are compiled once per vector level; CMake names the level.
LEVEL = ["-DTRAINCTL_LEVEL=portable", "-DTRAINCTL_LANES=4"]
COMPILER = os.environ.get("CXX", "g++")


@functools.lru_cache(maxsize=None)
def parts_of(path):
    """The file and all project headers it reaches."""
    seen, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in INCLUDE.findall(file.read_text()):
            for folder in [file.parent, *SEARCH]:
                if (folder / name).is_file():
                    todo.append((folder / name).resolve())
                    break
    return seen


def proved_by_build(header):
    source = header.with_suffix(".cpp")
    if not source.is_file():
        return False
    first = INCLUDE.search(source.read_text())
    any_first = ANY_INCLUDE.search(source.read_text())
    return bool(first) and first.start() == any_first.start() and first.group(1).split("/")[-1] == header.name


def flags_of_packages():
    words = []
    for package in ("ompi-c", "hwloc", "fmt", "spdlog"):
        found = subprocess.run(["pkg-config", "--cflags", package], capture_output=True, text=True)
        words += [re.sub(r"^-I", "-isystem", w) for w in found.stdout.split()]
    return words


def compile_alone(header, flags):
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", *LEVEL, *[f"-I{f}" for f in SEARCH],
               f"-I{header.parent}", *flags, "-x", "c++", "-"]
    source = f'#include "{header}"\n#include "{header}"\n'
    return subprocess.run(command, input=source, capture_output=True, text=True)


def main():
    all_headers = sorted(h for top in ("lib", "kernels", "apps", "tests") for h in (ROOT / top).rglob("*.h"))
    headers = [h for h in all_headers if not proved_by_build(h)]
    flags = flags_of_packages()
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout + " ".join(flags)
    known = ROOT / "build" / "headers"
    known.mkdir(parents=True, exist_ok=True)

    def check(header):
        digest = hashlib.sha256(version.encode())
        for part in sorted(parts_of(header.resolve())):
            digest.update(str(part.relative_to(ROOT)).encode() + part.read_bytes())
        stamp = known / digest.hexdigest()
        if stamp.exists():
            return None
        result = compile_alone(header, flags)
        if result.returncode == 0:
            stamp.touch()
            return None
        return f"{header.relative_to(ROOT)} does not compile alone:\n{result.stderr[:2000]}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        faults = [fault for fault in pool.map(check, headers) if fault]
    for fault in faults:
        print(fault)
    print(f"{len(all_headers)} headers, {len(headers)} compiled here: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
