// lib/interop/gguf_export.cpp -- tensor by tensor into a GGUF file.
#include "interop/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/units.h"
#include "checkpoint/restore_weights.h"
#include "interop/byte_tokenizer.h"
#include "interop/checkpoint_model.h"
#include "interop/gguf_model.h"
#include "interop/half.h"
#include "interop/hf_source.h"
#include "interop/sibling_folder.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOurKey = "trainctl.manifest_sha256";
constexpr std::string_view kFile = "model.gguf";

const fs::path& check_replaceable(const fs::path& output) {
  const fs::file_status status = fs::symlink_status(output);  // throws when it cannot be told
  if (status.type() == fs::file_type::not_found) return output;
  if (status.type() != fs::file_type::regular)
    fail(ErrorKind::usage, fmt::format("--output {} exists and is no file; name a file to write", output.string()));
  const FileHandle file = FileHandle::open_for_reading(output);
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), 4096)), '\0');
  file.read_at(head.data(), static_cast<int64_t>(head.size()), 0);
  if (!head.starts_with("GGUF") || head.find(kOurKey) == std::string::npos)
    fail(ErrorKind::usage, fmt::format("--output {} exists and is not an export of trainctl; it is left alone. Name "
                                       "another file",
                                       output.string()));
  return output;
}

// llama.cpp's numbers for what most of a file is.
uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q8_0:
      return 7;
    case GgufType::bf16:
      return 32;
  }
  return 0;
}

// Appends one row in `type`; returns the number of elements that it cannot hold.
int64_t encode_row(const float* row, int64_t columns, GgufType type, std::vector<char>& out) {
  const auto put = [&out](const auto& value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  };
  int64_t lost = 0;
  const auto put_half = [&](float value) {
    const uint16_t half = half_of_f32(value);
    lost += (half & 0x7c00u) == 0x7c00u && std::isfinite(value);
    put(half);
  };
  switch (type) {
    case GgufType::f32:
      for (int64_t i = 0; i < columns; ++i) put(row[i]);
      break;
    case GgufType::bf16:
      for (int64_t i = 0; i < columns; ++i) put(bf16(row[i]).bits);
      break;
    case GgufType::f16:
      for (int64_t i = 0; i < columns; ++i) put_half(row[i]);
      break;
    case GgufType::q8_0:
      for (int64_t begin = 0; begin < columns; begin += kQ8Run) {
        float largest = 0;
        for (int64_t i = 0; i < kQ8Run; ++i) largest = std::max(largest, std::fabs(row[begin + i]));
        const float d = largest / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
        put_half(d);
        for (int64_t i = 0; i < kQ8Run; ++i) put(static_cast<int8_t>(std::roundf(row[begin + i] * inverse)));
      }
      break;
  }
  return lost;
}

class Export {
 public:
  Export(const fs::path& checkpoint, const fs::path& output, const GgufExportOptions& options)
      : options_(options),
        reader_(checkpoint, light_reads()),
        model_(checkpoint_model(reader_)),
        parts_(gguf_tensors(model_.config)) {
    report_.checkpoint = checkpoint;
    report_.output = output;
    report_.family = model_.config.family;
    report_.manifest_sha256 = reader_.info().manifest_sha256;
    report_.step = reader_.manifest().step;
    report_.tensors = static_cast<int64_t>(parts_.size());
    report_.source = model_.source;
    for (const GgufPart& p : parts_)
      if (!p.parts.empty()) report_.parameters += p.shape.numel();
  }

  GgufExportReport run() {
    check_export_output(report_.checkpoint, report_.output);
    const fs::path output = output_folder(report_.output, "--output");
    put_keys();
    std::vector<GgufTensor> tensors;
    int64_t odd = 0;
    for (const GgufPart& p : parts_) {
      tensors.push_back({p.name, type_of(p), p.shape});
      odd += !p.always_f32 && type_of(p) != options_.type;
    }
    if (odd > 0)
      report_.notes.push_back(
          fmt::format("{} matrices are in F16: their rows are no multiple of {} elements", odd, kQ8Run));
    const SiblingFolder folder(check_replaceable(output), "gguf");
    writer_.open(folder.path() / kFile, std::move(tensors));
    std::vector<std::string> faults;
    int64_t done = 0;
    for (const GgufPart& p : parts_) {
      if (const int64_t lost = write(p); lost > 0)
        faults.push_back(fmt::format("{}: {} values (or scales) are beyond 65504", p.name, lost));
      done += p.shape.numel();
      if (options_.progress) options_.progress(done, report_.parameters);
    }
    if (!faults.empty())
      fail(ErrorKind::checkpoint, listed(fmt::format("{} holds what {} cannot; export F32 or BF16:",
                                                     report_.checkpoint.string(), name(options_.type)),
                                         faults));
    writer_.finish();
    report_.bytes = static_cast<int64_t>(fs::file_size(folder.path() / kFile));
    check_replaceable(output);  // again: writing took a while
    if (std::rename((folder.path() / kFile).c_str(), output.c_str()) != 0)
      throw file_error(ErrorKind::environment, "move the export to", output, errno);
    sync_directory(output.parent_path());
    return report_;
  }

 private:
  GgufType type_of(const GgufPart& p) const {
    if (p.always_f32) return GgufType::f32;
    const bool whole_runs = p.shape[1] % kQ8Run == 0;
    return options_.type == GgufType::q8_0 && !whole_runs ? GgufType::f16 : options_.type;
  }

  void put_keys() {
    writer_.text("general.architecture", model_.config.family);
    writer_.text(kOurKey, report_.manifest_sha256);
    writer_.text("trainctl.run_id", reader_.manifest().run_id);
    writer_.u32("trainctl.step", static_cast<uint32_t>(std::min<int64_t>(report_.step, UINT32_MAX)));
    writer_.text("general.type", "model");
    writer_.text("general.name", model_.name);
    writer_.u32("general.file_type", file_type(options_.type));
    writer_.u32("general.quantization_version", 2);
    put_gguf_keys(model_.config, writer_);
    put_tokenizer();
  }

  void put_tokenizer() {
    const int64_t vocab = model_.config.vocab.value.value();
    if (model_.tokenizer != "bytes" || vocab < kByteTokens) {
      writer_.text("tokenizer.ggml.model", "none");
      report_.notes.emplace_back(
          model_.tokenizer == "bytes"
              ? "no tokenizer: the vocabulary is smaller than the byte tokenizer's 257 ids"
              : "no tokenizer: only the byte tokenizer is converted; llama.cpp takes and gives ids");
      return;
    }
    constexpr int32_t kNormal = 1, kControl = 3, kUnused = 5;  // token types of the format
    std::vector<int32_t> types(static_cast<size_t>(vocab), kUnused);
    std::fill(types.begin(), types.begin() + kByteTokens, kNormal);
    types[kByteTokens - 1] = kControl;
    writer_.text("tokenizer.ggml.model", "gpt2");
    writer_.text("tokenizer.ggml.pre", "gpt-2");
    writer_.texts("tokenizer.ggml.tokens", byte_token_texts(vocab));
    writer_.i32s("tokenizer.ggml.token_type", types);
    writer_.texts("tokenizer.ggml.merges", {});
    writer_.u32("tokenizer.ggml.bos_token_id", kByteTokens - 1);
    writer_.u32("tokenizer.ggml.eos_token_id", kByteTokens - 1);
    writer_.flag("tokenizer.ggml.add_bos_token", false);
    writer_.flag("tokenizer.ggml.add_eos_token", false);
  }

  int64_t write(const GgufPart& p) {
    if (p.parts.empty()) {
      writer_.append(p.values.data(), static_cast<int64_t>(p.values.size() * 4));
      writer_.end_tensor();
      return 0;
    }
    const DType stored = read_weights(reader_, p.parts, buffer_);
    const int64_t columns = p.shape[p.shape.rank() - 1], rows = p.shape.numel() / columns;
    const int64_t per_head = p.interleaved_heads > 0 ? rows / p.interleaved_heads : 0;
    int64_t lost = 0;
    encoded_.clear();
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r) {
      int64_t from = r;
      if (per_head > 0) {
        const int64_t in_head = r % per_head;
        from = r - in_head + in_head % 2 * (per_head / 2) + in_head / 2;
      }
      const char* source = buffer_.data() + from * columns * size_of(stored);
      dispatch<float, bf16>(stored, [&]<class T> {
        for (int64_t i = 0; i < columns; ++i) {
          T value;
          std::memcpy(&value, source + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
          row[static_cast<size_t>(i)] = static_cast<float>(value);
        }
      });
      lost += encode_row(row.data(), columns, type_of(p), encoded_);
      if (encoded_.size() >= (1 << 20)) flush();
    }
    flush();
    writer_.end_tensor();
    return lost;
  }

  void flush() {
    writer_.append(encoded_.data(), static_cast<int64_t>(encoded_.size()));
    encoded_.clear();
  }

  const GgufExportOptions& options_;
  CheckpointReader reader_;
  CheckpointModel model_;
  std::vector<GgufPart> parts_;
  GgufExportReport report_;
  GgufWriter writer_;
  std::vector<char> buffer_, encoded_;
};

}  // namespace

GgufExportReport export_gguf(const fs::path& checkpoint, const fs::path& output, const GgufExportOptions& options) {
  return Export(checkpoint, output, options).run();
}

}  // namespace trainctl
