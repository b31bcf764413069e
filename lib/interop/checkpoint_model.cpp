// lib/interop/checkpoint_model.cpp -- provenance to architecture, and the check of every weight.
#include "interop/checkpoint_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/config_io.h"
#include "base/error.h"
#include "checkpoint/restore_weights.h"
#include "checkpoint/save_job.h"
#include "checkpoint/verify.h"
#include "interop/hf_source.h"
#include "recipe/recipe.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  fail(ErrorKind::checkpoint, fmt::format("{}: {}", folder.string(), what));
}

bool is_resolved(const ModelConfig& m) {
  return m.kv_heads && m.head_dim && m.d_ff && m.vocab.value && m.max_positions != 0;
}

void from_recipe(const json& section, const fs::path& folder, CheckpointModel& model) {
  Recipe recipe;
  try {
    recipe = recipe_from_json(section);
  } catch (const Error& e) {
    refuse(folder,
           fmt::format("the recipe in its manifest (provenance.recipe) is not one of this version: {}", e.what()));
  }
  if (!is_resolved(recipe.model))
    refuse(folder,
           "the recipe in its manifest is not resolved: kv_heads, head_dim, d_ff, vocab and max_positions must "
           "be numbers");
  model.name = recipe.name;
  model.config = recipe.model;
  model.tokenizer = recipe.data.tokenizer.kind;
  // The id that ends a document, where the vocabulary holds it.
  constexpr int64_t kBytesEnd = 256;
  json ids = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  if (model.tokenizer == "bytes" && recipe.model.vocab.value.value() > kBytesEnd) ids["eos_token_id"] = kBytesEnd;
  model.special_ids = ids.dump();
}

void from_import(const json& provenance, const fs::path& folder, CheckpointModel& model) {
  std::vector<Fault> faults;
  ConfigSource source;
  const std::string text = provenance["model"].dump();
  const JsonNode root = parse_json(text, "provenance.model");
  read_config(root, model.config, source, faults);
  if (!faults.empty())
    refuse(folder,
           "the model in its manifest is not one of this version: " + format_faults("provenance.model", faults));
  if (!is_resolved(model.config)) refuse(folder, "the model in its manifest (provenance.model) is not resolved");
  model.name = provenance.value("name", json("model")).is_string() ? provenance.value("name", "model") : "model";
  if (provenance.value("tokenizer", json()) == "bytes") model.tokenizer = "bytes";
  json ids = json::object();
  const json given = provenance.value("special_ids", json::object());
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    ids[key] = given.is_object() && given.contains(key) ? given[key] : json();
  model.special_ids = ids.dump();
}

// What contradicts the model, one line each.
std::vector<std::string> faults_of(const CheckpointReader& reader, const std::vector<HfTensor>& tensors, bool tied) {
  std::vector<std::string> faults;
  std::set<std::string> expected;
  for (const HfTensor& t : tensors)
    for (size_t i = 0; i < t.parts.size(); ++i) {
      expected.insert(t.parts[i]);
      const TensorRecord* found = best_weight(reader, t.parts[i]);
      if (found == nullptr)
        faults.push_back("missing " + t.parts[i]);
      else if (found->shape != t.part_shapes[i])
        faults.push_back(
            fmt::format("{} is {}, not {}", t.parts[i], to_string(found->shape), to_string(t.part_shapes[i])));
      else if (found->dtype != DType::f32 && found->dtype != DType::bf16)
        faults.push_back(fmt::format("{} is {}, not f32 or bf16", t.parts[i], name(found->dtype)));
      else if (!found->alias_of.empty())
        faults.push_back(
            fmt::format("{} is a copy of {}, but this model shares no weights", t.parts[i], found->alias_of));
    }
  for (const TensorRecord& t : reader.manifest().tensors) {
    if ((t.role != "weight" && t.role != "master") || !expected.insert(t.name).second) continue;
    if (tied && t.name == "head.weight" && t.alias_of == "embedding.weight") continue;
    faults.push_back("unexpected " + t.name + (tied && t.name == "head.weight" ? " (tie_embeddings is true)" : ""));
  }
  return faults;
}

}  // namespace

IoOptions light_reads() {
  IoOptions io;
  io.depth /= 2;
  return io;
}

const MetaRecord* CheckpointModel::find_meta(std::string_view wanted) const {
  for (const MetaRecord& file : meta)
    if (file.path == fmt::format("meta/{}", wanted)) return &file;
  return nullptr;
}

CheckpointModel checkpoint_model(const CheckpointReader& reader) {
  const fs::path& folder = reader.info().folder;
  const std::string& kind = reader.manifest().kind;
  if (const std::string why = unless_exportable(reader.info()); !why.empty()) refuse(folder, why);
  CheckpointModel model;
  const json provenance = json::parse(reader.manifest().provenance, nullptr, false);
  if (provenance.is_object() && provenance.contains("recipe"))
    from_recipe(provenance["recipe"], folder, model);
  else if (provenance.is_object() && provenance.contains("model") && kind == "portable")
    from_import(provenance, folder, model);
  else
    refuse(folder, "its manifest holds no recipe (provenance.recipe), so the architecture is not known");
  model.tensors = hf_tensors(model.config);
  model.meta = reader.manifest().meta;
  const std::vector<std::string> faults = faults_of(reader, model.tensors, model.config.tie_embeddings);
  if (!faults.empty())
    fail(ErrorKind::checkpoint, listed(fmt::format("{}: its weights are not those of the {} model in its manifest:",
                                                   folder.string(), model.config.family),
                                       faults));
  for (const HfTensor& t : model.tensors)
    for (const std::string& part : t.parts) ++model.source[best_weight(reader, part)->role];
  return model;
}

std::string source_text(const WeightSource& source) {
  const auto of = [&](const char* role) { return source.contains(role) ? source.at(role) : 0; };
  if (of("master") == 0) return "from the stored weights";
  if (of("weight") == 0) return "from the f32 masters";
  return fmt::format("from {} f32 masters and, where there is none, {} stored weights", of("master"), of("weight"));
}

void check_output_place(const fs::path& output) {
  for (fs::path at = output; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename().string();
    if (name == kStagingName || name.starts_with(kTrashPrefix) || name.starts_with(kSupersededPrefix))
      fail(ErrorKind::usage,
           fmt::format("--output {} lies in {}, where saves put things aside and take them away; name "
                       "a folder outside of it",
                       output.string(), at.string()));
    if (at != output && is_checkpoint_folder(at))
      fail(ErrorKind::usage, fmt::format("--output {} lies in the checkpoint {}; name a folder outside of it",
                                         output.string(), at.string()));
  }
}

void check_export_output(const fs::path& checkpoint, const fs::path& output) {
  const auto resolved = [](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); };
  const fs::path source = resolved(checkpoint), to = resolved(output);
  const auto [end, ignored] = std::mismatch(source.begin(), source.end(), to.begin(), to.end());
  if (end == source.end())
    fail(ErrorKind::usage,
         fmt::format("--output {} lies in the checkpoint; name a folder outside of it", output.string()));
  check_output_place(to);
  if (step_of_folder(to.filename().string()))
    fail(ErrorKind::usage, fmt::format("--output {}: a folder of that name would be taken for a checkpoint; name it "
                                       "otherwise",
                                       output.string()));
}

std::string unless_exportable(const CheckpointInfo& info) {
  if (info.state != CheckpointState::usable || info.kind == "training" || info.kind == "portable")
    return unless_usable(info);
  return fmt::format("its kind is {}; exported are kinds training and portable", info.kind);
}

}  // namespace trainctl
