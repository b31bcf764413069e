#!/usr/bin/env python3
"""make_fixtures.py -- writes tests/golden/hf: what Hugging Face transformers computes for tiny models, in f32 on a CPU.

Every case is a recipe's `model` section (<case>.json) and a tensor file (<case>.safetensors) holding tokens, labels,
logits, loss, and each parameter with its gradient under trainctl's names and layouts. The script installs the pinned
packages into a virtual environment, runs itself there, checks its own work, and writes the same bytes on every run.

  scripts/make_fixtures.py [--venv DIR] [--output DIR]
"""

import argparse
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import venv
import zlib
from importlib import metadata
from pathlib import Path

PINNED_PACKAGES = ["torch==2.9.1", "transformers==4.57.6", "safetensors==0.7.0", "numpy==2.3.5"]
# One thread and one code path per operation, so that neither scheduling nor the processor's model picks the rounding.
REPEATABLE_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"}
REEXECUTED = "TRAINCTL_FIXTURES_REEXECUTED"  # set in the child, so that a failed installation cannot loop
GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "hf"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    temporary = Path(tempfile.gettempdir()) / "trainctl-fixtures-venv"
    parser.add_argument("--venv", type=Path, default=temporary, help="created or reused (default: a temporary folder)")
    parser.add_argument("--output", type=Path, default=GOLDEN, help="where the files go")
    return parser.parse_args()


def missing_packages() -> list[str]:
    """The pinned requirements that this interpreter cannot import; "2.9.1+cpu" counts as torch 2.9.1."""
    installed = {f"{package.name}=={package.version.split('+')[0]}" for package in metadata.distributions()}
    return [package for package in PINNED_PACKAGES if package not in installed]


def enter_pinned_environment(folder: Path) -> None:
    """Returns in the child, where the pinned packages are importable; the parent ends with the child's exit status."""
    if os.environ.get(REEXECUTED):
        if missing := missing_packages():
            sys.exit(f"make_fixtures: {folder} still lacks {' '.join(missing)}")
        return
    python = sys.executable
    if missing_packages():
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PINNED_PACKAGES], check=True)
    environment = os.environ | REPEATABLE_ENVIRONMENT | {REEXECUTED: "1"}
    sys.exit(subprocess.run([python, *sys.argv], env=environment, check=False).returncode)


if __name__ == "__main__":
    arguments = parse_arguments()
    enter_pinned_environment(arguments.venv)

import numpy as np  # noqa: E402  (from here on the packages are installed)
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

Arrays = dict[str, np.ndarray]
TABLE_ROW = "{:<18} {:>7} {:>5} {:>10} {:>9} {:>10} {:>9} {:>7}"

# ---- the cases ------------------------------------------------------------------------------------------------------

BATCH = 2
PLAIN_ROPE = {"theta": 10000.0, "scaling": "none"}
IGNORED = -1  # trainctl's ignored label; torch's is -100


def recipe_model(family: str, **overrides) -> dict:
    """A recipe's `model` section: small, with no two sizes equal by accident."""
    is_gpt2 = family == "gpt2"
    model = {
        "family": family,
        "layers": 2,
        "d_model": 32,
        "heads": 4,
        "kv_heads": 4 if is_gpt2 else 2,
        "head_dim": 8,
        "d_ff": 96,
        "vocab": 97,
        "max_positions": 40 if is_gpt2 else 64,
        "norm_eps": 1e-6 if family.startswith("qwen") else 1e-5,
        "tie_embeddings": is_gpt2,
        "activation": "gelu_tanh" if is_gpt2 else "swiglu",
    }
    model |= {"param_dtype": "f32"} if is_gpt2 else {"rope": PLAIN_ROPE, "param_dtype": "f32"}
    assert overrides.keys() <= model.keys(), overrides
    return model | overrides


def scaled_rope_model(**rope) -> dict:
    """A Llama with 8 rotary frequencies, enough for every band of a scaling to hold one."""
    return recipe_model("llama", head_dim=16, rope=rope)


# Given in the recipe and withheld from HF, whose own defaults must then be these. The last one is for a factor of 4.
HF_YARN_DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 0.1 * math.log(4.0) + 1.0}

# Some norm_eps are large so that a wrong one shows. Some theta are small so that every band of an original context
# this short holds a frequency.
CASES = {
    "gpt2": recipe_model("gpt2", layers=3),
    "gpt2_gelu_exact": recipe_model("gpt2", activation="gelu", norm_eps=1e-3),
    "llama": recipe_model("llama", layers=3),
    "llama_tied": recipe_model("llama", head_dim=12, tie_embeddings=True, norm_eps=1e-3),
    "llama_rope_linear": scaled_rope_model(theta=10000.0, scaling="linear", factor=2.0),
    "llama_rope_llama3": scaled_rope_model(
        theta=500.0, scaling="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_positions=32
    ),
    "llama_rope_yarn": scaled_rope_model(
        theta=10.0, scaling="yarn", factor=4.0, original_positions=16, **HF_YARN_DEFAULTS
    ),
    "qwen2": recipe_model("qwen2"),
    "qwen3": recipe_model("qwen3", head_dim=16, tie_embeddings=True, norm_eps=1e-3),
}


def random_stream(*key: str) -> np.random.Generator:
    """A stream that depends on its key alone, whatever was drawn elsewhere."""
    return np.random.default_rng([zlib.crc32(part.encode()) for part in key])


def make_batch(case: str, model: dict) -> tuple[np.ndarray, np.ndarray]:
    """tokens, labels: i32 [B, S]; label[b, s] is the target of logits[b, s]. Rows ignore different counts."""
    sequence = 24 if model.get("rope", PLAIN_ROPE)["scaling"] == "none" else 48
    stream = random_stream(case, "tokens")
    text = stream.integers(0, model["vocab"], size=(BATCH, sequence + 1), dtype=np.int32)
    tokens, labels = text[:, :-1].copy(), text[:, 1:].copy()
    labels[:, -1] = IGNORED  # where a document ends
    labels[0, stream.choice(sequence, size=3, replace=False)] = IGNORED
    labels[1, :5] = IGNORED  # a prompt
    return tokens, labels


# ---- Hugging Face ---------------------------------------------------------------------------------------------------


def hf_config(model: dict) -> transformers.PretrainedConfig:
    settings = {
        "vocab_size": model["vocab"],
        "num_hidden_layers": model["layers"],
        "hidden_size": model["d_model"],
        "num_attention_heads": model["heads"],
        "max_position_embeddings": model["max_positions"],
        "tie_word_embeddings": model["tie_embeddings"],
        "attn_implementation": "eager",
    }
    if model["family"] == "gpt2":
        settings |= {
            "n_inner": model["d_ff"],
            "layer_norm_epsilon": model["norm_eps"],
            "activation_function": {"gelu_tanh": "gelu_new", "gelu": "gelu"}[model["activation"]],
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        }
    else:
        settings |= {
            "num_key_value_heads": model["kv_heads"],
            "head_dim": model["head_dim"],
            "intermediate_size": model["d_ff"],
            "rms_norm_eps": model["norm_eps"],
            "rope_theta": model["rope"]["theta"],
            "rope_scaling": hf_rope_scaling(model["rope"]),
            "attention_dropout": 0.0,
        }
    return transformers.AutoConfig.for_model(model["family"], **settings)


def hf_rope_scaling(rope: dict) -> dict | None:
    if rope["scaling"] == "none":
        return None
    hf_names = {"scaling": "rope_type", "original_positions": "original_max_position_embeddings"}
    return {hf_names.get(key, key): rope[key] for key in rope if key not in ("theta", *HF_YARN_DEFAULTS)}


def build_hf_model(case: str, model: dict) -> torch.nn.Module:
    network = transformers.AutoModelForCausalLM.from_config(hf_config(model)).float().eval()
    assert network.config._attn_implementation == "eager"
    for name, parameter in network.named_parameters():
        parameter.data.copy_(torch.from_numpy(initial_value(case, name, tuple(parameter.shape))))
    return network


def initial_value(case: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Gains around 1, biases around 0, embeddings and matrices of a size that keeps activations near 1."""
    stream = random_stream(case, name)
    if name.endswith(".bias"):
        value = stream.normal(0.0, 0.2, shape)
    elif len(shape) == 1:
        value = stream.uniform(0.6, 1.4, shape)
    elif any(part in name for part in ("wte", "wpe", "embed_tokens", "lm_head")):
        value = stream.normal(0.0, 0.3, shape)
    else:
        value = stream.normal(0.0, 1.5 * math.sqrt(2.0 / sum(shape)), shape)
    return value.astype(np.float32)


def forward_backward(network: torch.nn.Module, tokens: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns f32 logits [B, S, V] and the f64 mean of cross entropy over the unmasked labels; fills the gradients."""
    network.zero_grad(set_to_none=True)
    logits = network(input_ids=torch.from_numpy(tokens).long()).logits
    targets = torch.from_numpy(np.where(labels == IGNORED, -100, labels)).long()
    flat = logits.double().flatten(0, 1), targets.flatten()
    summed = torch.nn.functional.cross_entropy(*flat, ignore_index=-100, reduction="sum")
    loss = summed / int((labels != IGNORED).sum())
    loss.backward()
    return logits.detach().numpy(), loss.item()


# ---- trainctl's names and layouts -----------------------------------------------------------------------------------

RENAMED_MODULES = {
    # outside the layers
    **{"transformer.wte": "embedding", "transformer.wpe": "position_embedding", "transformer.ln_f": "final_norm"},
    **{"model.embed_tokens": "embedding", "model.norm": "final_norm", "lm_head": "head"},
    # in a GPT-2 layer
    **{"ln_1": "attention_norm", "attn.c_proj": "attention.o", "ln_2": "ffn_norm"},
    **{"mlp.c_fc": "ffn.up", "mlp.c_proj": "ffn.down"},
    # in a layer of the others
    **{"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"},
    **{f"self_attn.{part}_proj": f"attention.{part}" for part in "qkvo"},
    **{f"self_attn.{part}_norm": f"attention.{part}_norm" for part in "qk"},
    **{f"mlp.{part}_proj": f"ffn.{part}" for part in ("gate", "up", "down")},
}


def to_trainctl(hf_tensors: Arrays) -> Arrays:
    """Renames parameters (or their gradients), turns GPT-2's [in, out] into [out, in] and splits its fused q, k, v."""
    renamed = {}
    for hf_name, tensor in hf_tensors.items():
        module, kind = hf_name.rsplit(".", 1)  # kind: weight or bias
        prefix = ""
        if module not in RENAMED_MODULES:  # transformer.h.<layer>.<module> or model.layers.<layer>.<module>
            _, _, layer, module = module.split(".", 3)
            prefix = f"layers.{layer}."
            if hf_name.startswith("transformer."):
                tensor = tensor.T  # of a vector: itself
        if module == "attn.c_attn":
            for part, slab in zip("qkv", np.split(tensor, 3, axis=0), strict=True):
                renamed[f"{prefix}attention.{part}.{kind}"] = slab
        else:
            renamed[f"{prefix}{RENAMED_MODULES[module]}.{kind}"] = tensor
    return {name: np.ascontiguousarray(tensor) for name, tensor in renamed.items()}


# ---- the checks -----------------------------------------------------------------------------------------------------


def relative_gap(found: np.ndarray | float, expected: np.ndarray | float) -> float:
    return float(np.max(np.abs(np.subtract(found, expected))) / np.max(np.abs(expected)))


def loss_from_logits(logits: np.ndarray, labels: np.ndarray) -> float:
    """The loss again, in numpy and f64."""
    kept = labels != IGNORED
    rows = logits[kept].astype(np.float64)
    surprise = np.logaddexp.reduce(rows, axis=-1) - rows[np.arange(len(rows)), labels[kept]]
    return float(surprise.sum() / kept.sum())


def tied_gradient_gap(network: torch.nn.Module, tokens: np.ndarray, labels: np.ndarray) -> float:
    """How far the tied gradient is from the sum of the two that the same model has when untied."""
    untied = copy.deepcopy(network)
    untied.lm_head.weight = torch.nn.Parameter(untied.lm_head.weight.detach().clone())
    forward_backward(untied, tokens, labels)
    embedding, head = untied.get_input_embeddings().weight.grad.numpy(), untied.lm_head.weight.grad.numpy()
    tied = network.get_input_embeddings().weight.grad.numpy()
    assert min(relative_gap(embedding, tied), relative_gap(head, tied)) > 0.1, "one use alone explains the gradient"
    return relative_gap(embedding + head, tied)


def rotary_frequencies(rope: dict, head_dim: int) -> tuple[np.ndarray, float]:
    """Radians per position [head_dim / 2], and the factor on cos and sin. Formulas as in the README."""
    index = np.arange(head_dim // 2)
    plain = rope["theta"] ** (-2.0 * index / head_dim)
    stretched = plain / rope.get("factor", 1.0)
    if rope["scaling"] in ("none", "linear"):
        return stretched, 1.0
    if rope["scaling"] == "llama3":
        rotations = rope["original_positions"] * plain / (2.0 * math.pi)
        band = rope["high_freq_factor"] - rope["low_freq_factor"]
        keep = np.clip((rotations - rope["low_freq_factor"]) / band, 0.0, 1.0)
        return keep * plain + (1.0 - keep) * stretched, 1.0

    def index_with_rotations(rotations: float) -> float:  # over the original context
        return head_dim / 2.0 * math.log(rope["original_positions"] / (2.0 * math.pi * rotations), rope["theta"])

    first = max(math.floor(index_with_rotations(rope["beta_fast"])), 0)
    last = min(math.ceil(index_with_rotations(rope["beta_slow"])), head_dim - 1)
    stretch = np.clip((index - first) / max(last - first, 1e-3), 0.0, 1.0)
    return (1.0 - stretch) * plain + stretch * stretched, rope["attention_factor"]


def reference_logits(model: dict, weights: Arrays, tokens: np.ndarray) -> np.ndarray:
    """The forward pass in numpy and f64, from the recipe and the exported weights alone. Returns [B, S, V]."""
    weights = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    sequence = tokens.shape[1]

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True) if model["family"] == "gpt2" else x
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + model["norm_eps"])
        return centred / scale * weights[f"{name}.weight"] + weights.get(f"{name}.bias", 0.0)

    def rotate(x: np.ndarray) -> np.ndarray:
        frequencies, factor = rotary_frequencies(model["rope"], model["head_dim"])
        angle = np.outer(np.arange(sequence), frequencies)
        cos, sin = factor * np.cos(angle), factor * np.sin(angle)
        low, high = np.split(x, 2, axis=-1)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def attention(name: str, x: np.ndarray) -> np.ndarray:
        projected = [linear(f"{name}.{part}", x) for part in "qkv"]
        q, k, v = (t.reshape(*t.shape[:2], -1, model["head_dim"]).swapaxes(1, 2) for t in projected)  # [B, H, S, dim]
        if f"{name}.q_norm.weight" in weights:
            q, k = norm(f"{name}.q_norm", q), norm(f"{name}.k_norm", k)
        if "rope" in model:
            q, k = rotate(q), rotate(k)
        k, v = (np.repeat(t, model["heads"] // model["kv_heads"], axis=1) for t in (k, v))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(model["head_dim"])
        scores[..., ~np.tri(sequence, dtype=bool)] = -np.inf
        probabilities = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
        return linear(f"{name}.o", (probabilities @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1))

    def feed_forward(name: str, x: np.ndarray) -> np.ndarray:
        up = linear(f"{name}.up", x)
        if model["activation"] == "swiglu":
            gate = linear(f"{name}.gate", x)
            hidden = gate / (1.0 + np.exp(-gate)) * up
        elif model["activation"] == "gelu":
            hidden = 0.5 * up * (1.0 + np.vectorize(math.erf)(up / math.sqrt(2.0)))
        else:
            hidden = 0.5 * up * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (up + 0.044715 * up**3)))
        return linear(f"{name}.down", hidden)

    x = weights["embedding.weight"][tokens]
    if "position_embedding.weight" in weights:
        x = x + weights["position_embedding.weight"][:sequence]
    for layer in range(model["layers"]):
        x = x + attention(f"layers.{layer}.attention", norm(f"layers.{layer}.attention_norm", x))
        x = x + feed_forward(f"layers.{layer}.ffn", norm(f"layers.{layer}.ffn_norm", x))
    return linear("embedding" if model["tie_embeddings"] else "head", norm("final_norm", x))


def make_case(case: str, model: dict, output: Path) -> None:
    """Writes one case, refuses to when a check fails, and prints its row of the table."""
    tokens, labels = make_batch(case, model)
    network = build_hf_model(case, model)
    logits, loss = forward_backward(network, tokens, labels)
    parameters = dict(network.named_parameters())  # a tied head is listed once, as the embedding
    weights = to_trainctl({name: parameter.detach().numpy() for name, parameter in parameters.items()})
    gradients = to_trainctl({name: parameter.grad.numpy() for name, parameter in parameters.items()})

    loss_gap = relative_gap(loss, loss_from_logits(logits, labels))
    logits_gap = relative_gap(logits, reference_logits(model, weights, tokens))
    tied_gap = tied_gradient_gap(network, tokens, labels) if model["tie_embeddings"] else None
    assert loss_gap < 1e-12, f"{case}: loss differs from the one recomputed in f64 by {loss_gap:.1e}"
    assert logits_gap < 1e-5, f"{case}: logits differ from the f64 forward pass by {logits_gap:.1e}"
    assert tied_gap is None or tied_gap < 1e-5, f"{case}: the tied gradient is not the sum of its two uses: {tied_gap}"
    assert ("head.weight" in weights) != model["tie_embeddings"], case
    for tensor in (*weights.values(), *gradients.values()):
        assert tensor.dtype == np.float32 and np.isfinite(tensor).all() and np.ptp(tensor) > 0.0, case

    tensors = {"tokens": tokens, "labels": labels, "logits": logits, "loss": np.array([loss], dtype=np.float64)}
    tensors |= {f"weight/{name}": tensor for name, tensor in weights.items()}
    tensors |= {f"grad/{name}": tensor for name, tensor in gradients.items()}
    path = output / f"{case}.safetensors"
    save_file(tensors, path)
    path.with_suffix(".json").write_text(json.dumps(model, indent=2) + "\n")

    counts = sum(tensor.size for tensor in weights.values()), np.count_nonzero(labels != IGNORED)
    gaps = f"{loss_gap:.1e}", f"{logits_gap:.1e}", "untied" if tied_gap is None else f"{tied_gap:.1e}"
    print(TABLE_ROW.format(case, *counts, f"{loss:.7f}", *gaps, f"{path.stat().st_size / 1000:.1f}"))


def main(output: Path) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    output.mkdir(parents=True, exist_ok=True)
    print(*PINNED_PACKAGES)
    print(TABLE_ROW.format("case", "params", "kept", "loss", "loss gap", "logits gap", "tied gap", "KB"))
    for case, model in CASES.items():
        make_case(case, model, output)


if __name__ == "__main__":
    main(arguments.output)
