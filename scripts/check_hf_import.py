#!/usr/bin/env python3
"""check_hf_import.py -- models that Hugging Face transformers writes, through `trainctl checkpoint import` and back.

transformers makes a small random model of every family and RoPE scaling and saves it in f32, bf16 and f16, in one file
and in shards. trainctl imports the folder, verifies the checkpoint and exports it again; the tensors must have the same
bits (f16: the same values in f32), and the logits of the two folders must be equal bit by bit.

  scripts/check_hf_import.py BUILD_FOLDER [CASE...]

Needs torch, transformers and safetensors; it installs nothing. The environment of scripts/make_fixtures.py has them:
run this script with its python.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

NEEDED = ["torch", "transformers", "safetensors"]
SIZES = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
CASES = {
    "gpt2": ("GPT2", {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}),
    "gpt2_inner": ("GPT2", {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "n_inner": 96,
                            "activation_function": "gelu", "layer_norm_epsilon": 1e-3}),
    "llama": ("Llama", SIZES),
    "llama_tied": ("Llama", {**SIZES, "tie_word_embeddings": True, "head_dim": 12, "rms_norm_eps": 1e-3}),
    "llama_linear": ("Llama", {**SIZES, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "llama_llama3": ("Llama", {**SIZES, "rope_theta": 500.0, "rope_scaling": LLAMA3}),
    "llama_yarn": ("Llama", {**SIZES, "rope_theta": 10.0, "rope_scaling": YARN}),
    "qwen2": ("Qwen2", SIZES),
    "qwen2_tied": ("Qwen2", {**SIZES, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**SIZES, "head_dim": 16, "rope_theta": 1e6}),
}


def load_tensors(folder):
    from safetensors import safe_open
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for key in opened.keys():
                tensors[key] = opened.get_tensor(key)
    return tensors


def logits(folder):
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    tokens = (torch.arange(2 * 39).reshape(2, 39) * 37 + 11) % 97
    with torch.no_grad():
        return model.eval()(input_ids=tokens).logits


def check_case(trainctl, name, dtype, shard, scratch):
    import torch
    import transformers
    kind, sizes = CASES[name]
    torch.manual_seed(3)
    config = getattr(transformers, kind + "Config")(**sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # gains and biases too: nothing is 0 or 1
            parameter.add_(torch.randn_like(parameter) * 0.1)
    first, again = scratch / "first", scratch / "again"
    model.to(getattr(torch, dtype)).save_pretrained(first, max_shard_size=shard)
    run = lambda *words: subprocess.run([trainctl, "checkpoint", *words], check=True, stdout=subprocess.DEVNULL)
    run("import", "--from", "hf", first, "--output", scratch / "portable")
    run("verify", "--full", scratch / "portable")
    run("export", scratch / "portable", "--to", "hf", "--output", again, "--dtype",
        "bf16" if dtype == "bfloat16" else "f32")
    a, b = load_tensors(first), load_tensors(again)
    faults = [f"only one has {key}" for key in a.keys() ^ b.keys()]
    for key in a.keys() & b.keys():
        wanted = a[key].float() if dtype == "float16" else a[key]
        if wanted.dtype != b[key].dtype or not torch.equal(wanted, b[key]):
            faults.append(f"{key} differs")
    if not torch.equal(logits(first), logits(again)):
        faults.append("the logits differ")
    return len(list(first.glob("*.safetensors"))), faults


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        print(f"check_hf_import: this python ({sys.executable}) lacks {', '.join(missing)}")
        return 3
    trainctl = pathlib.Path(sys.argv[1]).resolve() / "bin/trainctl"
    if not trainctl.exists():
        print(f"check_hf_import: {trainctl} is not built")
        return 3
    os.environ["OMP_NUM_THREADS"] = "1"
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}")
    failed = 0
    for name in sys.argv[2:] or CASES:
        for dtype in ("float32", "bfloat16", "float16"):
            for shard in ("5GB", "20KB"):
                with tempfile.TemporaryDirectory() as folder:
                    files, faults = check_case(trainctl, name, dtype, shard, pathlib.Path(folder))
                failed += bool(faults)
                print(f"{name:<14} {dtype:<9} {files} files {'FAILED' if faults else 'ok'}", *faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
