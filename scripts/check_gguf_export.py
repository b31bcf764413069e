#!/usr/bin/env python3
"""check_gguf_export.py -- loads GGUF exports in llama.cpp and compares them with Hugging Face transformers.

For every case (the families and the RoPE scalings) a tiny model is trained for some steps on README.md, then exported
to Hugging Face and to GGUF. llama.cpp must load each file and, in F32, choose the same tokens greedily as transformers
does from the Hugging Face folder; BF16, F16 and Q8_0 must load and give the first token's log-probability to the
precision of the type. The byte tokenizer is compared too: text to ids in both libraries.

  scripts/check_gguf_export.py BUILD_FOLDER [CASE...]

Needs torch, transformers and xllamacpp, a Python package that ships llama.cpp compiled. It installs nothing: the
environment of scripts/make_fixtures.py --venv has the first two; add xllamacpp to it and run this script with its python.
"""
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = "A training run needs ranks, a mesh, Größe 日本\x01 's  100% and a recipe;\n\tthe loss "
TOKENS = 48
NEEDED = ["torch", "transformers", "xllamacpp"]
# Largest gap of a chosen token's log-probability. llama.cpp computes GELU from a table in f16.
TOLERANCE = {"f32": 2e-4, "bf16": 0.1, "f16": 0.02, "q8_0": 0.1}
GELU_TOLERANCE = 5e-3
BASE = {"layers": 3, "d_model": 64, "heads": 4, "d_ff": 128, "vocab": "tokenizer", "max_positions": 256}
CASES = {
    "llama": {"family": "llama", "kv_heads": 2},
    "llama_tied": {"family": "llama", "kv_heads": 4, "head_dim": 32, "tie_embeddings": True},
    "llama_linear": {"family": "llama", "rope": {"theta": 500.0, "scaling": "linear", "factor": 2.0}},
    "llama_llama3": {"family": "llama", "kv_heads": 1, "rope": {"theta": 500.0, "scaling": "llama3", "factor": 8.0,
                                                                "original_positions": 32}},
    "llama_yarn": {"family": "llama", "rope": {"theta": 100.0, "scaling": "yarn", "factor": 4.0,
                                               "original_positions": 32}},
    "llama_yarn_attention": {"family": "llama", "rope": {"theta": 100.0, "scaling": "yarn", "factor": 4.0,
                                                         "original_positions": 32, "attention_factor": 1.3}},
    "qwen2": {"family": "qwen2", "kv_heads": 2},
    "qwen2_yarn": {"family": "qwen2", "rope": {"theta": 100.0, "scaling": "yarn", "factor": 4.0,
                                               "original_positions": 32}},
    "qwen3": {"family": "qwen3", "kv_heads": 2, "head_dim": 32, "tie_embeddings": True},
    "gpt2": {"family": "gpt2"},
}


class LlamaCpp:
    def __init__(self, path):
        import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = 256
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.warmup = False
        parameters.verbosity = 0
        self.server = xllamacpp.Server(parameters)

    def complete(self, prompt, count):
        answer = self.server.handle_completions(
            {"prompt": prompt, "n_predict": count, "temperature": 0, "top_k": 1, "n_probs": 1, "ignore_eos": True,
             "cache_prompt": False, "logit_bias": []})
        return answer[0] if isinstance(answer, list) else answer

    def greedy(self, prompt):
        """Ids, their log-probabilities, and the text; the prompt is a text or ids."""
        choice = self.complete(prompt, TOKENS)["choices"][0]
        content = choice["logprobs"]["content"]
        return [entry["id"] for entry in content], [entry["logprob"] for entry in content], choice["text"]


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(part) for part in command)}\n{done.stdout}")


def reference(folder, ids):
    """Greedy tokens of transformers, never the end of a document, and their log-probabilities."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    chosen, logs, ids = [], [], list(ids)
    with torch.no_grad():
        for _ in range(TOKENS):
            scores = model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)
            scores[256] = -float("inf")
            token = int(scores.argmax())
            chosen.append(token)
            logs.append(float(scores[token]))
            ids.append(token)
    return chosen, logs


def check_case(trainctl, name, data, scratch):
    import transformers
    model = {**BASE, **CASES[name]}
    recipe = {"name": name, "model": model, "parallelism": {}, "optimizer": {"lr": 3e-3}, "checkpoint": {},
              "data": {"train": [{"path": str(data)}], "sequence_tokens": 128},
              "runtime": {"steps": 80, "global_batch_size": 4}}
    (scratch / "recipe.json").write_text(json.dumps(recipe))
    run(trainctl, "launch", scratch / "recipe.json", "--launcher", "threads", "--threads-per-rank", "1", "--run-dir",
        scratch / "run")
    run(trainctl, "checkpoint", "export", scratch / "run", "--to", "hf", "--output", scratch / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(scratch / "hf")
    text = PROMPT + "\x00"
    ids = tokenizer(text)["input_ids"]
    faults = []
    if ids != list(text.encode()) or tokenizer.decode(ids) != text:
        faults.append("the tokenizer of the Hugging Face folder is not the byte tokenizer")
    wanted, wanted_logs = reference(scratch / "hf", PROMPT.encode())
    gaps = {}
    for dtype, tolerance in TOLERANCE.items():
        file = scratch / f"{dtype}.gguf"
        run(trainctl, "checkpoint", "export", scratch / "run", "--to", "gguf", "--dtype", dtype, "--output", file)
        llama = LlamaCpp(file)
        chosen, logs, said = llama.greedy(list(PROMPT.encode()))
        same = next((i for i, pair in enumerate(zip(chosen, wanted)) if pair[0] != pair[1]), TOKENS)
        gaps[dtype] = max((abs(a - b) for a, b in zip(logs[:max(same, 1)], wanted_logs)), default=0.0)
        if model["family"] == "gpt2":
            tolerance = max(tolerance, GELU_TOLERANCE)
        if dtype == "f32" and (same < TOKENS or len(chosen) != TOKENS):
            faults.append(f"F32: token {same} is {chosen[same:same + 1]}, transformers chooses {wanted[same:same + 1]}")
        if not gaps[dtype] <= tolerance:
            faults.append(f"{dtype}: log-probabilities differ by {gaps[dtype]:.1e}")
        # The same prompt as text: other ids would give other log-probabilities.
        if llama.greedy(PROMPT) != (chosen, logs, said):
            faults.append(f"{dtype}: llama.cpp does not see the bytes of a text")
        if said != bytes(chosen).decode(errors="replace"):
            faults.append(f"{dtype}: llama.cpp spells {chosen} as {said!r}")
    return gaps, faults


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        print(f"check_gguf_export: this python ({sys.executable}) lacks {', '.join(missing)}")
        return 3
    trainctl = pathlib.Path(sys.argv[1]).resolve() / "bin/trainctl"
    if not trainctl.exists():
        print(f"check_gguf_export: {trainctl} is not built")
        return 3
    os.environ["OMP_NUM_THREADS"] = "1"
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}, xllamacpp {importlib.metadata.version('xllamacpp')}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "text"
        run(trainctl, "data", "prepare", ROOT / "README.md", "--output", data)
        for name in sys.argv[2:] or CASES:
            scratch = pathlib.Path(folder) / name
            scratch.mkdir()
            gaps, faults = check_case(trainctl, name, data, scratch)
            failed += bool(faults)
            shown = ", ".join(f"{dtype} {gap:.1e}" for dtype, gap in gaps.items())
            print(f"{name:<22} {shown} {'FAILED' if faults else 'ok'}", *faults, sep=" ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
