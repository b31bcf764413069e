// lib/interop/hf_import.cpp -- tensor by tensor from safetensors into a portable checkpoint.
#include "interop/hf_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/config_io.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "interop/byte_tokenizer.h"
#include "interop/export_record.h"
#include "interop/half.h"
#include "interop/hf_model.h"
#include "interop/hf_source.h"
#include "interop/hf_tensors.h"
#include "interop/portable_writer.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr int64_t kPiece = 1 << 20;  // bytes read at once; a multiple of every element's size
constexpr std::string_view kGpt2Prefix = "transformer.";
// Copied as they are.
constexpr const char* kMetaFiles[] = {"config.json",
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.json",
                                      "vocab.txt",
                                      "merges.txt",
                                      "tokenizer.model",
                                      "chat_template.jinja",
                                      "chat_template.json"};

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool same_shape(const std::vector<int64_t>& a, const Shape& b) {
  if (a.size() != static_cast<size_t>(b.rank())) return false;
  for (int d = 0; d < b.rank(); ++d)
    if (a[static_cast<size_t>(d)] != b[d]) return false;
  return true;
}

// "h.3.attn.bias" for pattern "h.#.attn.bias".
bool matches(std::string_view name, std::string_view pattern) {
  const size_t hash = pattern.find('#');
  const std::string_view before = pattern.substr(0, hash), after = pattern.substr(hash + 1);
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return false;
  const std::string_view middle = name.substr(before.size(), name.size() - before.size() - after.size());
  return middle.find_first_not_of("0123456789") == std::string_view::npos;
}

// Tables that older releases stored beside the parameters; transformers passes over them too.
bool is_stored_table(const std::string& family, std::string_view name, size_t rank) {
  if (family != "gpt2") return matches(name, "model.layers.#.self_attn.rotary_emb.inv_freq") && rank == 1;
  if (name.starts_with(kGpt2Prefix)) name.remove_prefix(kGpt2Prefix.size());
  return (matches(name, "h.#.attn.bias") && rank == 4) || (matches(name, "h.#.attn.masked_bias") && rank == 0);
}

// Elements of `dtype` at `data` that are infinite or no number.
int64_t non_finite_in(const char* data, int64_t bytes, std::string_view dtype) {
  const auto count = [&]<class Word>(Word mask) {
    int64_t found = 0;
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(Word))) {
      Word word = 0;
      std::memcpy(&word, data + at, sizeof word);
      found += (word & mask) == mask;
    }
    return found;
  };
  if (dtype == "F32") return count(uint32_t{0x7f800000u});
  return count(static_cast<uint16_t>(dtype == "BF16" ? 0x7f80u : 0x7c00u));
}

class Import {
 public:
  Import(const fs::path& folder, const fs::path& output, const HfImportOptions& options)
      : options_(options),
        compared_(check_export_record(
            folder, options.progress ? Progress([&](int64_t done, int64_t total) { options.progress(done, 3 * total); })
                                     : Progress())),
        source_(folder),
        config_text_(config_of(folder)),
        model_(hf_model(config_text_, (folder / "config.json").string(), options.harmless)),
        tensors_(hf_tensors(model_.config)) {
    report_.output = output;
    report_.source = folder;
    report_.family = model_.config.family;
    report_.notes = model_.notes;
    report_.compared = compared_;
    if (compared_ == 0 && has_hf_file(folder, std::string(kExportRecord)))
      report_.notes.push_back(
          fmt::format("{} has no digests (an older trainctl wrote none), so no file was compared", kExportRecord));
    check_tensors();
    // Wide elements first, so that every tensor is aligned in the file.
    std::stable_partition(plan_.begin(), plan_.end(), [](const Planned& p) { return p.dtype == DType::f32; });
    for (const Planned& p : plan_) {
      report_.parameters = checked_add(report_.parameters, p.tensor->shape.numel());
      report_.bytes = checked_add(report_.bytes, checked_mul(p.tensor->shape.numel(), size_of(p.dtype)));
    }
    report_.tensors = static_cast<int64_t>(plan_.size());
    if (has_hf_file(folder, "tokenizer.json") &&
        is_hf_byte_tokenizer(read_hf_file(folder, "tokenizer.json"), model_.config.vocab.value.value()))
      report_.tokenizer = "bytes";
    report_.recipe_model = ordered_json{{"model", write_config(model_.config)}}.dump(2) + "\n";
  }

  HfImportReport run() {
    std::vector<PortableTensor> parts;
    for (const Planned& p : plan_)
      for (size_t i = 0; i < p.tensor->parts.size(); ++i)
        parts.push_back({p.tensor->parts[i], p.dtype, p.tensor->part_shapes[i]});
    const fs::path absolute = fs::absolute(report_.source).lexically_normal();
    const std::string name = (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
    PortableWriter writer(report_.output, parts, {name, "import", provenance(name, absolute)});
    std::vector<std::string> faults;
    for (const Planned& p : plan_) {
      const int64_t odd = copy(p, writer);
      if (odd > 0) faults.push_back(fmt::format("{} holds {} infinities or NaNs", p.source.entry->name, odd));
      progress(0, done_ += p.tensor->shape.numel() * size_of(p.dtype));
    }
    if (!faults.empty())
      fail(ErrorKind::input, listed(fmt::format("{} cannot be trained from:", report_.source.string()), faults));
    writer.meta("recipe-model.json", report_.recipe_model);
    for (const char* file : kMetaFiles)
      if (has_hf_file(report_.source, file))
        writer.meta(file, file == std::string("config.json") ? config_text_ : read_hf_file(report_.source, file));
    report_.manifest_sha256 = writer
                                  .commit([this](int64_t done, int64_t total) {
                                    progress(1, total > 0 ? std::min(report_.bytes, report_.bytes * done / total) : 0);
                                  })
                                  .manifest_sha256;
    return report_;
  }

 private:
  // `done` bytes of writing (pass 0) or reading back (1); comparing was a pass before them.
  void progress(int64_t pass, int64_t done) const {
    const int64_t before = compared_ > 0 ? 1 : 0;
    if (options_.progress) options_.progress((before + pass) * report_.bytes + done, (before + 2) * report_.bytes);
  }

  struct Planned {
    const HfTensor* tensor;
    HfSource::Tensor source;
    DType dtype;  // as it is stored here
  };

  static std::string config_of(const fs::path& folder) {
    if (!has_hf_file(folder, "config.json"))
      fail(ErrorKind::input, fmt::format("{} holds no config.json, so the architecture is not known", folder.string()));
    return read_hf_file(folder, "config.json");
  }

  // The hub's GPT-2 has the names of the model without its head: no "transformer." before them.
  const HfSource::Tensor* find(const std::string& name) const {
    const auto& all = source_.tensors();
    auto found = all.find(name);
    if (found == all.end() && model_.config.family == "gpt2" && name.starts_with(kGpt2Prefix))
      found = all.find(name.substr(kGpt2Prefix.size()));
    return found == all.end() ? nullptr : &found->second;
  }

  void check_tensors() {
    std::vector<std::string> faults;
    std::set<std::string> used;
    for (const HfTensor& t : tensors_) {
      const HfSource::Tensor* found = find(t.name);
      if (found == nullptr) {
        faults.push_back(fmt::format("missing {} {}", t.name, to_string(t.shape)));
        continue;
      }
      const SafetensorsTensor& entry = *found->entry;
      used.insert(entry.name);
      if (!same_shape(entry.shape, t.shape))
        faults.push_back(fmt::format("{} is {}, not {}", entry.name, shape_text(entry.shape), to_string(t.shape)));
      else if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16")
        faults.push_back(fmt::format("{} is {}, not F32, BF16 or F16", entry.name, entry.dtype));
      else
        plan_.push_back({&t, *found, entry.dtype == "BF16" ? DType::bf16 : DType::f32});
    }
    int64_t tables = 0;
    for (const auto& [name, tensor] : source_.tensors()) {
      if (used.contains(name)) continue;
      if (is_stored_table(report_.family, name, tensor.entry->shape.size()))
        ++tables;
      else if (model_.config.tie_embeddings && name == "lm_head.weight")
        check_tied_head(tensor, faults);
      else
        faults.push_back(
            fmt::format("unexpected {} {} {}", in_quotes(name), tensor.entry->dtype, shape_text(tensor.entry->shape)));
    }
    if (!faults.empty())
      fail(ErrorKind::input, listed(fmt::format("{}: its tensors are not those of the {} model in its config.json:",
                                                report_.source.string(), report_.family),
                                    faults));
    if (tables > 0)
      report_.notes.push_back(
          fmt::format("{} stored tables (causal masks, rotary frequencies) are no parameters and "
                      "are passed over",
                      tables));
  }

  void check_tied_head(const HfSource::Tensor& head, std::vector<std::string>& faults) {
    const HfSource::Tensor* embedding = find(tensors_.front().name);
    if (embedding == nullptr) return;  // reported as missing
    bool same = head.entry->dtype == embedding->entry->dtype && head.entry->shape == embedding->entry->shape;
    std::vector<char> a(kPiece), b(kPiece);
    for (int64_t at = 0; same && at < head.entry->bytes(); at += kPiece) {
      const int64_t bytes = std::min(kPiece, head.entry->bytes() - at);
      head.file->read(*head.entry, a.data(), bytes, at);
      embedding->file->read(*embedding->entry, b.data(), bytes, at);
      same = std::memcmp(a.data(), b.data(), static_cast<size_t>(bytes)) == 0;
    }
    if (same)
      report_.notes.push_back("lm_head.weight is the embedding (tie_word_embeddings) and is kept once");
    else
      faults.push_back(fmt::format("{} differs from {}, and tie_word_embeddings says they are one", head.entry->name,
                                   embedding->entry->name));
  }

  // Returns the number of elements that are not finite.
  int64_t copy(const Planned& p, PortableWriter& writer) {
    const SafetensorsTensor& entry = *p.source.entry;
    const int64_t size = entry.dtype == "F32" ? 4 : 2;
    // A transposed tensor is read whole; the others piece by piece.
    const int64_t step = p.tensor->transposed ? std::max<int64_t>(entry.bytes(), 1) : kPiece;
    int64_t odd = 0;
    for (int64_t at = 0; at < entry.bytes(); at += step) {
      const int64_t bytes = std::min(step, entry.bytes() - at);
      if (static_cast<int64_t>(buffer_.size()) < bytes) buffer_.resize(static_cast<size_t>(bytes));
      p.source.file->read(entry, buffer_.data(), bytes, at);
      odd += non_finite_in(buffer_.data(), bytes, entry.dtype);
      if (!p.tensor->transposed && entry.dtype != "F16") {
        writer.append(buffer_.data(), bytes);
        continue;
      }
      const int64_t count = bytes / size, rows = p.tensor->transposed ? entry.shape[0] : 1, columns = count / rows;
      piece_.clear();
      for (int64_t c = 0; c < columns; ++c)  // one row: in order
        for (int64_t r = 0; r < rows; ++r) put(buffer_.data() + (r * columns + c) * size, entry.dtype, writer);
      writer.append(piece_.data(), static_cast<int64_t>(piece_.size()));
    }
    return odd;
  }

  void put(const char* element, std::string_view dtype, PortableWriter& writer) {
    if (dtype == "F16") {
      uint16_t half = 0;
      std::memcpy(&half, element, 2);
      const float value = f32_of_half(half);
      const char* bytes = reinterpret_cast<const char*>(&value);
      piece_.insert(piece_.end(), bytes, bytes + 4);
    } else {
      piece_.insert(piece_.end(), element, element + (dtype == "F32" ? 4 : 2));
    }
    if (static_cast<int64_t>(piece_.size()) < kPiece) return;
    writer.append(piece_.data(), static_cast<int64_t>(piece_.size()));
    piece_.clear();
  }

  std::string provenance(const std::string& name, const fs::path& absolute) const {
    ordered_json files = ordered_json::array(), dtypes = ordered_json::object();
    for (const std::string& file : source_.files()) files.push_back(file);
    for (const Planned& p : plan_) {
      ordered_json& count = dtypes[p.source.entry->dtype];
      count = count.is_null() ? 1 : count.get<int64_t>() + 1;
    }
    ordered_json all = {{"build", options_.build},
                        {"name", name},
                        {"model", write_config(model_.config)},
                        {"special_ids", ordered_json::parse(model_.special_ids)},
                        {"imported_from",
                         {{"format", "hf"},
                          {"folder", absolute.string()},
                          {"files", files},
                          {"files_compared", report_.compared},
                          {"tensors_of_dtype", dtypes},
                          {"config_sha256", sha256_hex(config_text_)}}}};
    if (!report_.tokenizer.empty()) all["tokenizer"] = report_.tokenizer;
    return all.dump();
  }

  const HfImportOptions& options_;
  int64_t compared_;  // files; before source_, which a damaged file would not open
  HfSource source_;
  std::string config_text_;
  HfModel model_;
  std::vector<HfTensor> tensors_;
  std::vector<Planned> plan_;
  HfImportReport report_;
  std::vector<char> buffer_, piece_;
  int64_t done_ = 0;
};

}  // namespace

HfImportReport import_hf(const fs::path& source, const fs::path& output, const HfImportOptions& options) {
  return Import(source, output, options).run();
}

}  // namespace trainctl
