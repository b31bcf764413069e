// lib/interop/hf_export.cpp -- weights out of a checkpoint, tensor by tensor, into a Hugging Face folder.
#include "interop/hf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/units.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors.h"
#include "interop/hf_config.h"
#include "interop/hf_tensors.h"
#include "interop/publish.h"
#include "recipe/recipe.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kTokenizerNote =
    "no tokenizer files: the byte tokenizer has none in Hugging Face's formats. Ids 0 to 255 are the bytes of the "
    "text, "
    "256 ends a document";

Recipe recipe_of(const Manifest& manifest, const fs::path& folder) {
  const nlohmann::json provenance = nlohmann::json::parse(manifest.provenance, nullptr, false);
  if (!provenance.is_object() || !provenance.contains("recipe"))
    fail(ErrorKind::checkpoint, fmt::format("{}: its manifest holds no recipe (provenance.recipe), so the architecture "
                                            "is not known",
                                            folder.string()));
  Recipe recipe;
  try {
    recipe = recipe_from_json(provenance["recipe"]);
  } catch (const Error& e) {
    fail(ErrorKind::checkpoint, fmt::format("{}: the recipe in its manifest (provenance.recipe) is not one of this "
                                            "version: {}",
                                            folder.string(), e.what()));
  }
  const ModelConfig& m = recipe.model;
  if (!m.kv_heads || !m.head_dim || !m.d_ff || !m.vocab.value || m.max_positions == 0)
    fail(ErrorKind::checkpoint,
         fmt::format("{}: the recipe in its manifest is not resolved: kv_heads, head_dim, d_ff, vocab and "
                     "max_positions must be numbers",
                     folder.string()));
  return recipe;
}

// What contradicts the recipe's model, one line each.
std::vector<std::string> faults_of(const CheckpointReader& reader, const std::vector<HfTensor>& tensors, bool tied) {
  std::vector<std::string> faults;
  std::set<std::string> expected;
  for (const HfTensor& t : tensors)
    for (size_t i = 0; i < t.parts.size(); ++i) {
      expected.insert(t.parts[i]);
      const TensorRecord* found = reader.find(t.parts[i], "weight");
      if (found == nullptr)
        faults.push_back("missing " + t.parts[i]);
      else if (found->shape != t.part_shapes[i])
        faults.push_back(
            fmt::format("{} is {}, not {}", t.parts[i], to_string(found->shape), to_string(t.part_shapes[i])));
      else if (found->dtype != DType::f32 && found->dtype != DType::bf16)
        faults.push_back(fmt::format("{} is {}, not f32 or bf16", t.parts[i], name(found->dtype)));
      else if (found->dtype != reader.find(t.parts.front(), "weight")->dtype)
        faults.push_back(fmt::format("{} is {}, unlike {}", t.parts[i], name(found->dtype), t.parts.front()));
      else if (!found->alias_of.empty())
        faults.push_back(
            fmt::format("{} is a copy of {}, but this model shares no weights", t.parts[i], found->alias_of));
    }
  for (const TensorRecord& t : reader.manifest().tensors) {
    if (t.role != "weight" || expected.contains(t.name)) continue;
    if (tied && t.name == "head.weight" && t.alias_of == "embedding.weight") continue;
    faults.push_back("unexpected " + t.name + (tied && t.name == "head.weight" ? " (tie_embeddings is true)" : ""));
  }
  return faults;
}

template <class Out, class In>
Out cast(In value) {
  if constexpr (std::is_same_v<In, Out>)
    return value;
  else
    return static_cast<Out>(value);
}

// Appends the elements of `stack` [rows, columns], or of its transpose, with a buffer of one MiB.
template <class In, class Out>
void append_elements(SafetensorsWriter& writer, const In* stack, int64_t rows, int64_t columns, bool transposed) {
  constexpr size_t kPiece = (1 << 20) / sizeof(Out);
  std::vector<Out> piece;
  piece.reserve(kPiece);
  const auto put = [&](In value) {
    piece.push_back(cast<Out>(value));
    if (piece.size() < kPiece) return;
    writer.append(piece.data(), static_cast<int64_t>(piece.size() * sizeof(Out)));
    piece.clear();
  };
  if (transposed) {
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r) put(stack[r * columns + c]);
  } else {
    for (int64_t i = 0; i < rows * columns; ++i) put(stack[i]);
  }
  writer.append(piece.data(), static_cast<int64_t>(piece.size() * sizeof(Out)));
}

class Export {
 public:
  Export(const fs::path& checkpoint, const fs::path& output, const HfExportOptions& options)
      : options_(options),
        reader_(checkpoint),
        recipe_(checked_recipe(checkpoint)),
        tensors_(hf_tensors(recipe_.model)) {
    const std::vector<std::string> faults = faults_of(reader_, tensors_, recipe_.model.tie_embeddings);
    if (!faults.empty()) {
      std::string text;
      for (const std::string& fault : faults) text += "\n  " + fault;
      fail(ErrorKind::checkpoint, fmt::format("{}: its weights are not those of the {} model in its recipe:{}",
                                              checkpoint.string(), recipe_.model.family, text));
    }
    report_.output = output;
    report_.checkpoint = checkpoint;
    report_.family = recipe_.model.family;
    report_.manifest_sha256 = reader_.info().manifest_sha256;
    report_.step = reader_.manifest().step;
    report_.tensors = static_cast<int64_t>(tensors_.size());
    for (const HfTensor& t : tensors_) report_.parameters = checked_add(report_.parameters, t.shape.numel());
    report_.bytes = checked_mul(report_.parameters, size_of(options_.dtype));
    if (recipe_.data.tokenizer.kind == "bytes") report_.notes.emplace_back(kTokenizerNote);
  }

  HfExportReport run() {
    check_output();
    const ordered_json config = hf_config(recipe_.model, recipe_.data.tokenizer, options_.dtype);
    PublishedFolder target(report_.output);
    folder_ = target.folder();
    write("config.json", config.dump(2) + "\n");
    write("generation_config.json", hf_generation_config(recipe_.model, recipe_.data.tokenizer).dump(2) + "\n");
    write("README.md", readme());
    write_shards();
    write_record();
    target.publish();
    return report_;
  }

 private:
  Recipe checked_recipe(const fs::path& checkpoint) const {
    const std::string& kind = reader_.manifest().kind;
    if (kind != "training" && kind != "portable")
      fail(ErrorKind::checkpoint,
           fmt::format("{} is of kind {}; exported are kinds training and portable", checkpoint.string(), kind));
    return recipe_of(reader_.manifest(), checkpoint);
  }

  // A checkpoint's folder holds what its manifest says and nothing else.
  void check_output() const {
    const auto resolved = [](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); };
    const fs::path source = resolved(report_.checkpoint), to = resolved(report_.output);
    const auto [end, ignored] = std::mismatch(source.begin(), source.end(), to.begin(), to.end());
    if (end == source.end())
      fail(ErrorKind::usage,
           fmt::format("--output {} lies in the checkpoint; name a folder outside of it", report_.output.string()));
    if (step_of_folder(to.filename().string()))
      fail(ErrorKind::usage,
           fmt::format("--output {}: a folder of that name would be taken for a checkpoint; name it otherwise",
                       report_.output.string()));
  }

  void write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_ / name, text);
    report_.files.push_back(name);
  }

  void write_shards() {
    std::vector<std::vector<const HfTensor*>> shards(1);
    int64_t held = 0;
    for (const HfTensor& t : tensors_) {
      const int64_t bytes = t.shape.numel() * size_of(options_.dtype);
      if (!shards.back().empty() && held + bytes > options_.max_shard_bytes) {
        shards.emplace_back();
        held = 0;
      }
      shards.back().push_back(&t);
      held += bytes;
    }
    ordered_json map = ordered_json::object();
    for (size_t k = 0; k < shards.size(); ++k) {
      const std::string name = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", k + 1, shards.size());
      write_shard(name, shards[k]);
      for (const HfTensor* t : shards[k]) map.push_back({t->name, name});
    }
    if (shards.size() > 1)
      write("model.safetensors.index.json",
            ordered_json{{"metadata", {{"total_size", report_.bytes}}}, {"weight_map", map}}.dump(2) + "\n");
  }

  void write_shard(const std::string& name, const std::vector<const HfTensor*>& tensors) {
    std::vector<SafetensorsTensor> header;
    for (const HfTensor* t : tensors) {
      SafetensorsTensor entry;
      entry.name = t->name;
      entry.dtype = safetensors_dtype(options_.dtype);
      for (int d = 0; d < t->shape.rank(); ++d) entry.shape.push_back(t->shape[d]);
      header.push_back(std::move(entry));
    }
    SafetensorsWriter writer(folder_ / name, std::move(header), {{"format", "pt"}});  // transformers asks for "format"
    for (const HfTensor* t : tensors) {
      append(writer, *t);
      done_ += t->shape.numel() * size_of(options_.dtype);
      if (options_.progress) options_.progress(done_, report_.bytes);
    }
    writer.finish();
    report_.files.push_back(name);
  }

  void append(SafetensorsWriter& writer, const HfTensor& t) {
    const DType stored = reader_.find(t.parts.front(), "weight")->dtype;
    buffer_.resize(std::max(buffer_.size(), static_cast<size_t>(t.shape.numel() * size_of(stored))));
    int64_t at = 0, rows = 0;
    for (size_t i = 0; i < t.parts.size(); ++i) {
      const Shape& shape = t.part_shapes[i];
      Box whole{shape, shape};
      for (int d = 0; d < shape.rank(); ++d) whole.offset[d] = 0;
      reader_.read(*reader_.find(t.parts[i], "weight"), whole, stored, buffer_.data() + at);
      at += shape.numel() * size_of(stored);
      rows += shape[0];
    }
    dispatch<float, bf16>(stored, [&]<class In> {
      dispatch<float, bf16>(options_.dtype, [&]<class Out> {
        append_elements<In, Out>(writer, reinterpret_cast<const In*>(buffer_.data()), rows, t.shape.numel() / rows,
                                 t.transposed);
      });
    });
  }

  std::string readme() const {
    std::string text = fmt::format(
        "# {}, step {}\n\nA {} model of {} parameters in {}, exported by trainctl for Hugging Face transformers:\n\n"
        "    model = transformers.AutoModelForCausalLM.from_pretrained(\"<this folder>\")\n\n"
        "trainctl_export.json says which checkpoint it came from.\n",
        recipe_.name, report_.step, report_.family, report_.parameters, name(options_.dtype));
    for (const std::string& note : report_.notes) text += "\nNote: " + note + ".\n";
    return text;
  }

  void write_record() {
    report_.files.emplace_back(kExportRecord);
    std::sort(report_.files.begin(), report_.files.end());
    const ordered_json record = {{"format", "trainctl_export"},
                                 {"version", 1},
                                 {"to", "hf"},
                                 {"run_id", reader_.manifest().run_id},
                                 {"step", report_.step},
                                 {"kind", reader_.manifest().kind},
                                 {"manifest_sha256", report_.manifest_sha256},
                                 {"dtype", name(options_.dtype)},
                                 {"parameters", report_.parameters},
                                 {"notes", report_.notes},
                                 {"files", report_.files}};
    write_file_atomically(folder_ / kExportRecord, record.dump(2) + "\n");
  }

  const HfExportOptions& options_;
  CheckpointReader reader_;
  Recipe recipe_;
  std::vector<HfTensor> tensors_;
  HfExportReport report_;
  fs::path folder_;
  std::vector<char> buffer_;
  int64_t done_ = 0;
};

}  // namespace

HfExportReport export_hf(const fs::path& checkpoint, const fs::path& output, const HfExportOptions& options) {
  if (options.dtype != DType::f32 && options.dtype != DType::bf16)
    fail(ErrorKind::usage, fmt::format("--dtype {} is not one of f32, bf16", name(options.dtype)));
  if (options.max_shard_bytes < 1)
    fail(ErrorKind::usage, fmt::format("--max-shard-bytes {} must be 1 or more", options.max_shard_bytes));
  return Export(checkpoint, output, options).run();
}

fs::path choose_exportable(const fs::path& path, std::optional<int64_t> step) {
  if (!step && !is_checkpoint_folder(path) && !step_of_folder(path.filename().string()))
    for (const CheckpointInfo& info : scan_checkpoints(checkpoint_root_of(path)))
      if (info.state == CheckpointState::usable && (info.kind == "training" || info.kind == "portable"))
        return info.folder;
  return choose_checkpoint(path, step);
}

}  // namespace trainctl
