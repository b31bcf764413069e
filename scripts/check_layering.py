#!/usr/bin/env python3
"""Compares #include lines with the DEPS written in CMake, and DEPS with the order of the layers.

A file may include headers of its own folder and of folders its modules depend on, directly or not. A folder depends
only on folders that stand earlier in LAYERS. Third parties have their own places: MPI in lib/comm, CUDA in lib/cuda and
kernels/*/*.cu, CLI11 in apps.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["base", "topology", "schedule", "device", "tensor", "kernels", "comm", "autograd", "ops", "model", "parallel",
          "precision", "optim", "data", "runtime", "checkpoint", "observe", "recipe", "interop", "launch", "trainer",
          "planner", "accept", "cuda"]
# What may never be reached, although it stands earlier.
NEVER = {
    "model": {"comm", "topology", "parallel"},
    "checkpoint": {"model", "optim", "runtime"},
    "data": {"device", "comm", "kernels", "model"},
    "launch": {"comm", "kernels", "device", "tensor", "data"},
    "recipe": {"comm", "kernels", "device", "tensor"},
    "interop": {"model", "parallel", "runtime", "optim", "comm", "kernels"},
}
# Modules whose headers lie in other modules' folders: the config structs, and the identity of the build.
FOREIGN = {"configs": re.compile(r"^\w+/\w+_config\.h$"), "build_info": re.compile(r"^base/build_info\.h$")}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
CALL = re.compile(r"trainctl_(module|program)\(\s*(\w+)(.*?)\)", re.S)
KEYWORDS = {"SOURCES", "DEPS", "LIBS"}


def arguments(text):
    """{'SOURCES': [...], 'DEPS': [...], 'LIBS': [...]} of a call's body."""
    result, key = {k: [] for k in KEYWORDS}, None
    for word in re.sub(r"#[^\n]*", "", text).split():
        if word in KEYWORDS:
            key = word
        elif key:
            result[key].append(word)
    return result


def read_modules():
    """module -> (folder, DEPS)"""
    modules = {"build_info": ("base", [])}
    for cmake in [*ROOT.glob("lib/*/CMakeLists.txt"), ROOT / "kernels/CMakeLists.txt"]:
        if not cmake.exists():
            continue
        for kind, name, body in CALL.findall(cmake.read_text()):
            if kind == "module":
                modules[name] = (cmake.parent.name, arguments(body)["DEPS"])
    return modules


def closure(deps, modules, seen=None):
    seen = set() if seen is None else seen
    for dep in deps:
        if dep not in seen and dep in modules:
            seen.add(dep)
            closure(modules[dep][1], modules, seen)
    return seen


def main():
    faults = []
    modules = read_modules()
    folders = {folder for folder, _ in modules.values()}

    for name, (folder, deps) in modules.items():
        for dep in deps:
            if dep not in modules:
                faults.append(f"{folder}/CMakeLists.txt: {name} depends on {dep}, which is no module")
        if folder not in LAYERS:
            faults.append(f"{folder}: not in the layer list of scripts/check_layering.py")
            continue
        reached = {modules[m][0] for m in closure(deps, modules) if m not in FOREIGN} - {folder}
        for other in sorted(reached & NEVER.get(folder, set())):
            faults.append(f"{folder}: module {name} reaches {other}, which it must never")
        for dep in deps:
            if dep in modules and dep not in FOREIGN and modules[dep][0] in LAYERS and name not in FOREIGN:
                if LAYERS.index(modules[dep][0]) > LAYERS.index(folder):
                    faults.append(f"{folder}: module {name} depends on {dep}, which stands above it")

    allowed = {}
    for folder in folders:
        own = [m for m, (f, _) in modules.items() if f == folder]
        reached = set(own) | closure([d for m in own for d in modules[m][1]], modules)
        # Reading one's own config struct needs no dependency on all of them.
        allowed[folder] = ({modules[m][0] for m in reached if m not in FOREIGN} | {folder}, reached | {"build_info"})

    files = [f for top in ("lib", "kernels", "apps") for f in (ROOT / top).rglob("*")
             if f.suffix in {".h", ".cpp", ".cu", ".cuh"}]
    for path in files:
        relative = path.relative_to(ROOT).as_posix()
        parts = relative.split("/")
        folder = "kernels" if parts[0] == "kernels" else parts[1]
        for quote, header in INCLUDE.findall(path.read_text()):
            if header in ("mpi.h",) and not relative.startswith("lib/comm/"):
                faults.append(f"{relative}: includes <mpi.h>; MPI belongs to lib/comm")
            if re.match(r"(cuda|cublas|nccl)", header) and quote == "<" and not (
                    relative.startswith("lib/cuda/") or path.suffix in {".cu", ".cuh"}):
                faults.append(f"{relative}: includes <{header}>; CUDA belongs to lib/cuda and kernels/*/*.cu")
            if header.startswith("CLI/") and parts[0] != "apps":
                faults.append(f"{relative}: includes <{header}>; CLI11 belongs to apps")
            target = header.split("/")[0]
            if quote != '"' or "/" not in header or target not in folders or parts[0] == "apps":
                continue
            reach, reached_modules = allowed.get(folder, (set(), set()))
            foreign = any(m in reached_modules and pattern.match(header) for m, pattern in FOREIGN.items())
            if target not in reach and not foreign:
                faults.append(f'{relative}: includes "{header}", but no module of {folder} depends on {target}')

    for fault in sorted(set(faults)):
        print(fault)
    print(f"{len(files)} files, {len(modules)} modules: {len(set(faults))} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
