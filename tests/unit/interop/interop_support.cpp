// tests/unit/interop/interop_support.cpp -- golden weights into checkpoints, and exports back into weights.
#include "interop_support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "checkpoint/safetensors.h"
#include "interop/hf_export.h"
#include "recipe/recipe.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

fs::path source_folder() {
  const char* source = std::getenv("TRAINCTL_SOURCE");
  return source != nullptr ? fs::path(source) : fs::path(".");
}

Values values_of(const SafetensorsReader& reader, const SafetensorsTensor& t) {
  Values v;
  v.shape = t.shape;
  std::vector<char> raw(static_cast<size_t>(t.bytes()));
  reader.read(t, raw.data(), t.bytes());
  if (t.dtype == "F32") {
    v.data.resize(raw.size() / 4);
    std::memcpy(v.data.data(), raw.data(), raw.size());
  } else if (t.dtype == "BF16") {
    for (size_t i = 0; i < raw.size(); i += 2) {
      bf16 x;
      std::memcpy(&x, raw.data() + i, 2);
      v.data.push_back(static_cast<float>(x));
    }
  } else {
    throw std::runtime_error(t.name + " is " + t.dtype);
  }
  return v;
}

Values transpose(const Values& v) {
  if (v.shape.size() == 1) return v;
  const int64_t rows = v.shape[0], columns = v.shape[1];
  Values out{{columns, rows}, std::vector<float>(v.data.size())};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out.data[static_cast<size_t>(c * rows + r)] = v.data[static_cast<size_t>(r * columns + c)];
  return out;
}

int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  throw std::runtime_error("no " + key + " in /proc/self/status");
}

const std::map<std::string, std::string> kRenamed = {{"transformer.wte", "embedding"},
                                                     {"transformer.wpe", "position_embedding"},
                                                     {"transformer.ln_f", "final_norm"},
                                                     {"model.embed_tokens", "embedding"},
                                                     {"model.norm", "final_norm"},
                                                     {"lm_head", "head"},
                                                     {"ln_1", "attention_norm"},
                                                     {"attn.c_proj", "attention.o"},
                                                     {"ln_2", "ffn_norm"},
                                                     {"mlp.c_fc", "ffn.up"},
                                                     {"mlp.c_proj", "ffn.down"},
                                                     {"input_layernorm", "attention_norm"},
                                                     {"post_attention_layernorm", "ffn_norm"},
                                                     {"self_attn.q_proj", "attention.q"},
                                                     {"self_attn.k_proj", "attention.k"},
                                                     {"self_attn.v_proj", "attention.v"},
                                                     {"self_attn.o_proj", "attention.o"},
                                                     {"self_attn.q_norm", "attention.q_norm"},
                                                     {"self_attn.k_norm", "attention.k_norm"},
                                                     {"mlp.gate_proj", "ffn.gate"},
                                                     {"mlp.up_proj", "ffn.up"},
                                                     {"mlp.down_proj", "ffn.down"}};

}  // namespace

nlohmann::json read_json(const fs::path& path) { return nlohmann::json::parse(file_bytes(path)); }

Golden golden(const std::string& name) {
  const fs::path stem = source_folder() / "tests/golden/hf" / name;
  Golden g{read_json(stem.string() + ".json"), {}};
  const SafetensorsReader reader(stem.string() + ".safetensors");
  for (const SafetensorsTensor& t : reader.header().tensors)
    if (t.name.starts_with("weight/")) g.weights[t.name.substr(7)] = values_of(reader, t);
  return g;
}

nlohmann::json provenance_of(const nlohmann::json& model) {
  LoadedRecipe loaded = load_recipe(source_folder() / "recipes/llama_tiny.json", {"data.sequence_tokens=16"});
  const ResolveResult resolved = resolve(loaded, 1);
  if (!resolved.faults.empty()) throw std::runtime_error("the base recipe does not resolve");
  nlohmann::json recipe = recipe_to_json(resolved.recipe);
  recipe["model"] = model;
  recipe["parallelism"]["pipeline_layers"] = {model.at("layers")};
  return {{"build", "abc"}, {"recipe", recipe}};
}

fs::path save_weights(const fs::path& root, const Golden& state, const SaveOptions& options) {
  std::vector<GlobalTensor> globals;
  for (const auto& [name, values] : state.weights) {
    Shape shape;
    for (const int64_t d : values.shape) shape.push_back(d);
    const auto alias = options.aliases.find(name);
    globals.push_back({name, "weight", options.dtype, shape, 0, alias == options.aliases.end() ? "" : alias->second});
    const bool bare = !options.no_master.empty() && name.find(options.no_master) != std::string::npos;
    if (options.dtype == DType::bf16 && !bare) globals.push_back({name, "master", DType::f32, shape, 0, ""});
    globals.push_back({name, "exp_avg", DType::f32, shape, 0, ""});
  }
  ThreadWorld ranks(options.world);
  on_ranks(options.world, [&](int64_t rank) {
    RankState local(globals, rank, options.world);
    local.fill(1);
    for (StateEntry& e : local.catalog) {
      if (e.role == "exp_avg") continue;
      const std::vector<float>& data = state.weights.at(e.name).data;
      const int64_t row = e.shape.numel() / e.shape[0], begin = e.box.offset[0] * row;
      for (int64_t i = 0; i < e.box.extent.numel(); ++i) {
        const float x = data[static_cast<size_t>(begin + i)];
        if (e.local.dtype() == DType::bf16)
          static_cast<bf16*>(e.local.data())[i] = bf16(x);
        else
          static_cast<float*>(e.local.data())[i] = x;
      }
    }
    CheckpointerOptions to = options_for(root, ranks.agreement(rank));
    to.provenance = options.provenance.empty() ? provenance_of(state.model).dump() : options.provenance;
    Checkpointer checkpointer = build_checkpointer(CheckpointConfig{}, std::move(to), local.arena(), local.catalog);
    ScalarState scalars = scalars_at(7);
    scalars.last_loss = options.loss;
    checkpointer.save(local.catalog, scalars, SaveReason::interval);
    for (const SaveOutcome& outcome : checkpointer.wait())
      if (!outcome.ok) throw std::runtime_error("not saved: " + outcome.reason);
  });
  return root / "step-00000007";
}

std::map<std::string, ExportedTensor> read_export(const fs::path& folder) {
  std::map<std::string, ExportedTensor> all;
  for (const fs::path& file : files_below(folder)) {
    if (file.extension() != ".safetensors") continue;
    const SafetensorsReader reader(file);
    if (reader.header().metadata.at("format") != "pt") throw std::runtime_error("no format in the metadata");
    for (const SafetensorsTensor& t : reader.header().tensors) {
      const ExportedTensor tensor{t.dtype, file.filename().string(), values_of(reader, t)};
      if (!all.emplace(t.name, tensor).second) throw std::runtime_error(t.name + " is there twice");
    }
  }
  return all;
}

Weights back_to_trainctl(const std::map<std::string, ExportedTensor>& exported) {
  Weights weights;
  for (const auto& [name, tensor] : exported) {
    const size_t dot = name.rfind('.');
    std::string module = name.substr(0, dot), kind = name.substr(dot), prefix;
    Values values = tensor.values;
    if (!kRenamed.contains(module)) {
      const bool gpt2 = module.starts_with("transformer.h.");
      const std::string rest = module.substr(gpt2 ? 14 : 13);  // after "transformer.h." or "model.layers."
      prefix = "layers." + rest.substr(0, rest.find('.')) + ".";
      module = rest.substr(rest.find('.') + 1);
      if (gpt2) values = transpose(values);
    }
    if (module != "attn.c_attn") {
      weights[prefix + kRenamed.at(module) + kind] = values;
      continue;
    }
    const size_t third = values.data.size() / 3;
    for (size_t i = 0; i < 3; ++i) {
      Values part{values.shape, {}};
      part.shape[0] /= 3;
      const float* begin = values.data.data() + i * third;
      part.data.assign(begin, begin + third);
      weights[prefix + "attention." + "qkv"[i] + kind] = part;
    }
  }
  return weights;
}

void put_safetensors(const fs::path& path, const RawTensors& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, t] : tensors) {
    header[name] = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text += ' ';
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  put_bytes(path, length + text + data);
}

RawTensor raw_f32(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  RawTensor t{"F32", shape, std::string(values.size() * 4, '\0')};
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

RawTensor as_bf16(const RawTensor& f32) {
  RawTensor narrow{"BF16", f32.shape, std::string(f32.bytes.size() / 2, '\0')};
  for (size_t i = 0; i < narrow.bytes.size() / 2; ++i) {
    float x = 0;
    std::memcpy(&x, f32.bytes.data() + 4 * i, 4);
    const bf16 b(x);
    std::memcpy(narrow.bytes.data() + 2 * i, &b, 2);
  }
  return narrow;
}

void put_golden_folder(const fs::path& scratch, const std::string& name, const fs::path& folder) {
  export_hf(save_weights(scratch / ("checkpoints-" + name), golden(name)), folder);
}

RawTensors raw_tensors(const fs::path& safetensors) {
  const SafetensorsReader reader(safetensors);
  RawTensors all;
  for (const SafetensorsTensor& t : reader.header().tensors) {
    RawTensor raw{t.dtype, t.shape, std::string(static_cast<size_t>(t.bytes()), '\0')};
    reader.read(t, raw.bytes.data(), t.bytes());
    all[t.name] = raw;
  }
  return all;
}

void put_hf_folder(const fs::path& folder, const nlohmann::json& config, const RawTensors& tensors) {
  fs::create_directories(folder);
  fs::remove(folder / "trainctl_export.json");  // it is as the export wrote it no more
  put_bytes(folder / "config.json", config.dump());
  put_safetensors(folder / "model.safetensors", tensors);
}

void in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    try {
      work();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("the child process is lost");
}

int64_t growth_of_peak(const std::function<void()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  in_child([&] {
    std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // the peak starts anew
    const int64_t before = status_bytes("VmRSS");
    work();
    const int64_t growth = status_bytes("VmHWM") - before;
    if (::write(ends[1], &growth, sizeof growth) != sizeof growth) ::_exit(1);
  });
  ::close(ends[1]);
  int64_t growth = -1;
  const bool told = ::read(ends[0], &growth, sizeof growth) == sizeof growth;
  ::close(ends[0]);
  if (!told) throw std::runtime_error("the child process failed");
  return growth;
}

std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trainctl::testing
