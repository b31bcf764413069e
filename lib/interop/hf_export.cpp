// lib/interop/hf_export.cpp -- weights out of a checkpoint, tensor by tensor, into a Hugging Face folder.
#include "interop/hf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/restore_weights.h"
#include "checkpoint/safetensors.h"
#include "interop/byte_tokenizer.h"
#include "interop/checkpoint_model.h"
#include "interop/hf_config.h"
#include "interop/hf_tensors.h"
#include "interop/publish.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

// Written by the import or its user; an export must be whole without them.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "vocab.txt",
                                           "merges.txt",
                                           "tokenizer.model",
                                           "chat_template.jinja",
                                           "chat_template.json"};

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
        reader_(checkpoint, light_reads()),
        model_(checkpoint_model(reader_)),
        special_ids_(ordered_json::parse(model_.special_ids)) {
    report_.output = output;
    report_.checkpoint = checkpoint;
    report_.family = model_.config.family;
    report_.manifest_sha256 = reader_.info().manifest_sha256;
    report_.step = reader_.manifest().step;
    report_.tensors = static_cast<int64_t>(model_.tensors.size());
    report_.source = model_.source;
    for (const HfTensor& t : model_.tensors) report_.parameters = checked_add(report_.parameters, t.shape.numel());
    report_.bytes = checked_mul(report_.parameters, size_of(options_.dtype));
    if (model_.tokenizer == "bytes" && !holds_byte_tokenizer())
      report_.notes.push_back(
          fmt::format("no tokenizer files: of the byte tokenizer's ids (0 to 255 are the bytes of the "
                      "text, 256 ends a document) the vocabulary holds {}",
                      model_.config.vocab.value.value()));
    else if (model_.tokenizer.empty() && model_.find_meta("tokenizer.json") == nullptr &&
             model_.find_meta("tokenizer.model") == nullptr && model_.find_meta("vocab.json") == nullptr)
      report_.notes.emplace_back("no tokenizer files: none were imported with the weights");
  }

  HfExportReport run() {
    check_export_output(report_.checkpoint, report_.output);
    const ordered_json config = hf_config(model_.config, special_ids_, options_.dtype);
    PublishedFolder target(report_.output);
    folder_ = target.folder();
    write("config.json", config.dump(2) + "\n");
    if (!copy_meta("generation_config.json"))
      write("generation_config.json", hf_generation_config(special_ids_).dump(2) + "\n");
    for (const char* file : kTokenizerFiles) copy_meta(file);
    if (holds_byte_tokenizer() && model_.find_meta("tokenizer.json") == nullptr) {
      write("tokenizer.json", hf_byte_tokenizer(model_.config.vocab.value.value()).dump(2) + "\n");
      write("tokenizer_config.json", hf_byte_tokenizer_config().dump(2) + "\n");
    }
    write("README.md", readme());
    write_shards();
    write_record();
    target.publish();
    return report_;
  }

 private:
  bool holds_byte_tokenizer() const {
    return model_.tokenizer == "bytes" && model_.config.vocab.value.value() >= kByteTokens;
  }

  // Returns false when the checkpoint has no such file.
  bool copy_meta(const std::string& name) {
    const MetaRecord* file = model_.find_meta(name);
    if (file != nullptr) write(name, read_meta_file(report_.checkpoint, *file));
    return file != nullptr;
  }

  void write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_ / name, text);
    report_.files.push_back(name);
    digests_[name] = {static_cast<int64_t>(text.size()), xxh128_hex(text.data(), text.size())};
  }

  void write_shards() {
    std::vector<std::vector<const HfTensor*>> shards(1);
    int64_t held = 0;
    for (const HfTensor& t : model_.tensors) {
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
    const std::string digest = writer.finish();
    digests_[name] = {static_cast<int64_t>(fs::file_size(folder_ / name)), digest};
    report_.files.push_back(name);
  }

  void append(SafetensorsWriter& writer, const HfTensor& t) {
    const DType stored = read_weights(reader_, t.parts, buffer_);
    int64_t rows = 0;
    for (const Shape& shape : t.part_shapes) rows += shape[0];
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
        model_.name, report_.step, report_.family, report_.parameters, name(options_.dtype));
    for (const std::string& note : report_.notes) text += "\nNote: " + note + ".\n";
    return text;
  }

  void write_record() {
    report_.files.emplace_back(kExportRecord);
    std::sort(report_.files.begin(), report_.files.end());
    ordered_json digests = ordered_json::object();
    for (const auto& [name, digest] : digests_) digests[name] = {{"bytes", digest.bytes}, {"xxh128", digest.xxh128}};
    const ordered_json record = {{"format", "trainctl_export"},
                                 {"version", 1},
                                 {"to", "hf"},
                                 {"run_id", reader_.manifest().run_id},
                                 {"step", report_.step},
                                 {"kind", reader_.manifest().kind},
                                 {"manifest_sha256", report_.manifest_sha256},
                                 {"dtype", name(options_.dtype)},
                                 {"weights_from", report_.source},
                                 {"parameters", report_.parameters},
                                 {"notes", report_.notes},
                                 {"files", report_.files},
                                 {"digests", digests}};
    write_file_atomically(folder_ / kExportRecord, record.dump(2) + "\n");
  }

  const HfExportOptions& options_;
  CheckpointReader reader_;
  CheckpointModel model_;
  ordered_json special_ids_;
  HfExportReport report_;
  FileDigests digests_;
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

}  // namespace trainctl
