#!/usr/bin/env python3
"""check_hf_export.py -- loads exports in Hugging Face transformers and compares logits with the committed fixtures.

For every case of tests/golden/hf the interop_golden program (built with the tests) makes a checkpoint of the fixture's
weights; `trainctl checkpoint export` writes it in f32, and transformers computes the logits of the fixture's tokens
from the exported folder alone (moved, so that no path is baked in). The fixtures' logits come from the same library and
the same weights, so on the machine that made them the gap is 0; another processor or release may round differently, and
1e-5 of the largest logit is allowed, as in make_fixtures.py.

  scripts/check_hf_export.py BUILD_FOLDER [CASE...]

Needs torch, transformers and safetensors; it installs nothing. The environment of scripts/make_fixtures.py has them:
run this script with its python.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "hf"
TOLERANCE = 1e-5
# As in make_fixtures.py: neither scheduling nor the processor's model picks the rounding. Read when torch is imported.
REPEATABLE_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
NEEDED = ["torch", "transformers", "safetensors", "numpy"]


def check_case(build, case, scratch):
    """Relative gap of the logits, and what went wrong beside it."""
    import torch
    import transformers
    from safetensors.numpy import load_file

    run, first, moved = scratch / "checkpoints", scratch / "first", scratch / "moved"
    subprocess.run([build / "tests/unit/interop/interop_golden", case, run], check=True, cwd=ROOT)
    subprocess.run([build / "bin/trainctl", "checkpoint", "export", run, "--to", "hf", "--output", first, "--json",
                    "--max-shard-bytes", "40000"], check=True, stdout=subprocess.DEVNULL)
    first.rename(moved)
    network, loading = transformers.AutoModelForCausalLM.from_pretrained(
        moved, attn_implementation="eager", output_loading_info=True)
    faults = [f"{kind}: {loading[kind]}" for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")
              if loading[kind]]
    if network.dtype != torch.float32:
        faults.append(f"dtype {network.dtype}")
    fixture = load_file(GOLDEN / f"{case}.safetensors")
    with torch.no_grad():
        logits = network.eval()(input_ids=torch.from_numpy(fixture["tokens"]).long()).logits.numpy()
    gap = abs(logits - fixture["logits"]).max() / abs(fixture["logits"]).max()
    index = json.loads((moved / "model.safetensors.index.json").read_text())
    return float(gap), len(set(index["weight_map"].values())), faults


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        print(f"check_hf_export: this python ({sys.executable}) lacks {', '.join(missing)}; use one that has them, for "
              "example that of the folder given to scripts/make_fixtures.py --venv")
        return 3
    build = pathlib.Path(sys.argv[1]).resolve()
    for program in ("tests/unit/interop/interop_golden", "bin/trainctl"):
        if not (build / program).exists():
            print(f"check_hf_export: {build / program} is not built")
            return 3
    os.environ.update(REPEATABLE_ENVIRONMENT)
    import transformers
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}")
    failed = 0
    for case in sys.argv[2:] or sorted(path.stem for path in GOLDEN.glob("*.safetensors")):
        with tempfile.TemporaryDirectory() as folder:
            gap, files, faults = check_case(build, case, pathlib.Path(folder))
        bad = bool(faults) or not gap <= TOLERANCE
        failed += bad
        print(f"{case:<18} {files} files, logits differ by {gap:.1e} of the largest {'FAILED' if bad else 'ok'}",
              *faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
