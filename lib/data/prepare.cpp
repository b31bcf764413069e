// lib/data/prepare.cpp -- readers for each format feed one sink that encodes and writes.
#include "data/prepare.h"

#include <fmt/format.h>

#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"
#include "data/text_reader.h"
#include "data/token_writer.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos; }

// Collects the text of one document and hands it on in pieces when the tokenizer allows that.
class DocumentSink {
 public:
  DocumentSink(const PrepareOptions& options, const Tokenizer& tokenizer, TokenWriter& writer, PrepareStatistics& stats)
      : options_(options), tokenizer_(tokenizer), writer_(writer), stats_(stats) {}

  void append(std::string_view text) {
    text_ += text;
    bytes_ += static_cast<int64_t>(text.size());
    if (tokenizer_.concatenates() && text_.size() >= kPieceBytes) encode();
  }

  void end_document() {
    if (bytes_ == 0) {
      ++stats_.empty_documents;
      return;
    }
    encode();
    if (options_.append_end_of_document) {
      const int32_t end = tokenizer_.end_of_document();
      writer_.append({&end, 1});
    }
    writer_.end_document();
    ++stats_.documents;
    stats_.bytes += bytes_;
    bytes_ = 0;
  }

  bool open() const { return bytes_ > 0; }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  void encode() {
    ids_.clear();
    tokenizer_.encode(text_, ids_);
    writer_.append(ids_);
    text_.clear();
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  TokenWriter& writer_;
  PrepareStatistics& stats_;
  std::string text_;
  std::vector<int32_t> ids_;
  int64_t bytes_ = 0;
};

class Progress {
 public:
  Progress(const PrepareOptions& options, const TokenWriter& writer, int64_t total)
      : options_(options), writer_(writer), total_(total) {}
  void at(int64_t bytes_of_this_file) {
    if (options_.progress && before_ + bytes_of_this_file - told_ >= kStepBytes) tell(before_ + bytes_of_this_file);
  }
  void end_file(int64_t bytes) { before_ += bytes; }
  void end() {
    if (options_.progress) tell(before_);
  }
  int64_t bytes() const { return before_; }

 private:
  static constexpr int64_t kStepBytes = int64_t{4} << 20;
  void tell(int64_t done) {
    told_ = done;
    options_.progress({done, std::max(total_, done), writer_.documents(), writer_.tokens()});
  }
  const PrepareOptions& options_;
  const TokenWriter& writer_;
  int64_t total_, before_ = 0, told_ = 0;
};

void read_text(TextReader& reader, TextSplit split, DocumentSink& sink, Progress& progress) {
  std::string_view line, terminator;
  if (split == TextSplit::none) {
    while (reader.next_chunk(line)) {
      sink.append(line);
      progress.at(reader.bytes_read());
    }
    sink.end_document();
    return;
  }
  std::string owed;  // the line end before the next line of the same document
  while (reader.next_line(line, terminator)) {
    progress.at(reader.bytes_read());
    if (is_blank(line)) {
      if (sink.open()) sink.end_document();
      continue;
    }
    if (split == TextSplit::lines) {
      sink.append(line);
      sink.end_document();
      continue;
    }
    if (sink.open()) sink.append(owed);
    sink.append(line);
    owed = terminator;
  }
  if (sink.open()) sink.end_document();
}

// All faults of a line's JSON, each as "file:line:column: what"; the first few of many.
std::string faults_of_line(const std::vector<Fault>& faults, const std::string& where) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kShown); ++i)
    text += fmt::format("{}{}:{}: {}{}", i == 0 ? "" : "\n", where, faults[i].position.column,
                        faults[i].path.empty() ? "" : clipped(faults[i].path) + ": ", faults[i].message);
  if (faults.size() > kShown) text += fmt::format("\n{}: and {} more in this line", where, faults.size() - kShown);
  return text;
}

// The text of one JSONL line. Faults are told as file:line, with the column when the JSON itself is broken.
std::string text_of_line(std::string_view line, const std::string& key, const std::string& where) {
  ParsedJson parsed = parse_json_lenient(line);
  if (!parsed.faults.empty()) fail(ErrorKind::input, faults_of_line(parsed.faults, where));
  const JsonNode& root = parsed.root;
  if (!std::holds_alternative<JsonNode::Object>(root.value)) {
    fail(ErrorKind::input,
         fmt::format("{}: this line is of type {}; each line must be a JSON object", where, root.type_name()));
  }
  const JsonNode* text = root.find(key);
  if (text == nullptr) {
    std::vector<std::string> keys;
    for (const JsonNode::Member& member : std::get<JsonNode::Object>(root.value)) keys.push_back(member.key);
    const std::string close = nearest(key, keys);
    fail(ErrorKind::input,
         fmt::format("{}: no key {} in this object (keys: {}){}; name the key of the text with --text-key", where,
                     in_quotes(key), keys.empty() ? "none" : clipped(fmt::format("{}", fmt::join(keys, ", ")), 200),
                     close.empty() ? "" : ", nearest " + in_quotes(close)));
  }
  if (const std::string* value = std::get_if<std::string>(&text->value)) return *value;
  fail(ErrorKind::input, fmt::format("{}: {} is of type {}; it must be a string, or name another key with "
                                     "--text-key",
                                     where, in_quotes(key), text->type_name()));
}

void read_jsonl(TextReader& reader, const fs::path& path, const std::string& key, DocumentSink& sink,
                Progress& progress) {
  std::string_view line, terminator;
  while (reader.next_line(line, terminator)) {
    progress.at(reader.bytes_read());
    if (is_blank(line)) continue;
    sink.append(text_of_line(line, key, fmt::format("{}:{}", path.string(), reader.line_number())));
    sink.end_document();
  }
}

// Size of all inputs; refuses what cannot be read before any work is done.
int64_t check_inputs(const PrepareOptions& options, const TokenPaths& written) {
  if (options.inputs.empty()) fail(ErrorKind::usage, "no input file given");
  int64_t total = 0;
  for (const fs::path& path : options.inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
      fail(ErrorKind::input, fmt::format("{}: no such file; name the text or JSONL files to read", path.string()));
    }
    if (status.type() == fs::file_type::directory) {
      fail(ErrorKind::input, fmt::format("{}: a folder; name the files in it", path.string()));
    }
    if (status.type() == fs::file_type::character || status.type() == fs::file_type::block) {
      fail(ErrorKind::input, fmt::format("{}: a device, which may have no end; name a file or a pipe", path.string()));
    }
    for (const fs::path& output : {written.bin, written.idx}) {
      if (fs::equivalent(path, output, error)) {
        fail(ErrorKind::input,
             fmt::format("{}: this input would be overwritten; choose another output prefix", path.string()));
      }
    }
    const auto size = fs::file_size(path, error);
    if (!error) total += static_cast<int64_t>(size);  // a pipe has no size; it is read all the same
  }
  return total;
}

// True when older token files will be replaced, as asked.
bool check_output(const PrepareOptions& options, const TokenPaths& written) {
  std::string there;
  for (const fs::path& output : {written.bin, written.idx}) {
    std::error_code error;
    const fs::file_status status = fs::status(output);  // throws when it cannot be told
    if (status.type() == fs::file_type::not_found) continue;
    if (status.type() != fs::file_type::regular)
      fail(ErrorKind::usage, fmt::format("{} is {}; choose another output prefix", output.string(),
                                         status.type() == fs::file_type::directory ? "a folder" : "no regular file"));
    there += fmt::format("{}{} ({})", there.empty() ? "" : " and ", output.string(),
                         human_bytes(static_cast<int64_t>(fs::file_size(output, error))));
  }
  if (!there.empty() && !options.overwrite)
    fail(ErrorKind::usage, fmt::format("{} would be overwritten; use --force to replace the token files, or choose "
                                       "another --output",
                                       there));
  return !there.empty();
}

// Makes the output's folder and those above it; takes the new ones away again unless kept.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& folder) {
    std::error_code error;
    for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) made_.push_back(at);
    if (!made_.empty()) make_directories(folder);
  }
  ~OutputFolder() {
    std::error_code not_empty;
    for (const fs::path& folder : made_) fs::remove(folder, not_empty);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  fs::path keep() {
    const fs::path topmost = made_.empty() ? fs::path() : made_.back();
    made_.clear();
    return topmost;
  }

 private:
  std::vector<fs::path> made_;  // deepest first
};

}  // namespace

std::string_view name(TextSplit split) {
  switch (split) {
    case TextSplit::none:
      return "none";
    case TextSplit::blank_lines:
      return "blank-lines";
    case TextSplit::lines:
      return "lines";
  }
  return "unknown";
}

TextSplit text_split_from_name(std::string_view word) {
  for (const TextSplit split : {TextSplit::none, TextSplit::blank_lines, TextSplit::lines}) {
    if (name(split) == word) return split;
  }
  fail(ErrorKind::usage, fmt::format("\"{}\" is no way to split text; use none, blank-lines or lines", word));
}

InputFormat input_format_of(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json" ? InputFormat::jsonl
                                                                                 : InputFormat::text;
}

PrepareStatistics prepare_tokens(const PrepareOptions& options, const Tokenizer& tokenizer) {
  PrepareStatistics stats;
  stats.written = token_files_to_write(options.output);
  const int64_t total = check_inputs(options, stats.written);
  stats.replaced = check_output(options, stats.written);
  OutputFolder folder(stats.written.bin.parent_path());
  TokenWriter writer(options.output, {.vocab = tokenizer.vocab(), .max_sequence_tokens = options.max_sequence_tokens});
  DocumentSink sink(options, tokenizer, writer, stats);
  Progress progress(options, writer, total);
  for (const fs::path& path : options.inputs) {
    TextReader reader(path);
    const InputFormat format = options.force_format ? options.format : input_format_of(path);
    if (format == InputFormat::jsonl) {
      read_jsonl(reader, path, options.text_key, sink, progress);
    } else {
      read_text(reader, options.split, sink, progress);
    }
    progress.end_file(reader.bytes_read());
    ++stats.files;
  }
  if (stats.documents == 0) {
    fail(ErrorKind::input,
         fmt::format("no document in {} of {}, {} among them: nothing was written", counted(stats.files, "file"),
                     counted(progress.bytes(), "byte"), options.inputs.front().string()));
  }
  writer.finish();
  stats.created_folder = folder.keep();
  stats.tokens = writer.tokens();
  stats.input_bytes = progress.bytes();
  stats.dtype = writer.dtype();
  progress.end();
  return stats;
}

}  // namespace trainctl
