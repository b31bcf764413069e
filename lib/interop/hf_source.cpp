// lib/interop/hf_source.cpp -- finding and opening the files of weights, with every check before any use.
#include "interop/hf_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/file_error.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSingle = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr int64_t kMaxSmallFile = int64_t{64} << 20;

// The same error as one of the user's files rather than of a checkpoint.
template <class F>
auto as_input(F f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::checkpoint) throw;
    fail(ErrorKind::input, e.what());
  }
}

void refuse_link(const fs::path& path) {
  std::error_code ignored;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::symlink)
    fail(ErrorKind::input, fmt::format("{} is a link, and links are not followed; a folder of the Hugging Face cache "
                                       "holds links: copy it with `cp -rL` and import the copy",
                                       path.string()));
}

}  // namespace

std::string listed(const std::string& what, const std::vector<std::string>& faults, size_t most) {
  std::string text = what;
  for (size_t i = 0; i < std::min(most, faults.size()); ++i) text += "\n  " + faults[i];
  if (faults.size() > most) text += fmt::format("\n  and {} more", faults.size() - most);
  return text;
}

bool has_hf_file(const fs::path& folder, const std::string& name) {
  return fs::exists(fs::symlink_status(folder / name));  // throws when that cannot be told
}

std::string read_hf_file(const fs::path& folder, const std::string& name) {
  refuse_link(folder / name);
  return as_input([&] { return read_small_file(folder / name, kMaxSmallFile); });
}

HfSource::HfSource(const fs::path& folder) : folder_(folder) {
  if (!is_folder(folder))
    fail(ErrorKind::input, fmt::format("{} is no folder; give the folder of a Hugging Face model, with config.json and "
                                       "model.safetensors",
                                       folder.string()));
  const bool single = has_hf_file(folder, std::string(kSingle)), index = has_hf_file(folder, std::string(kIndex));
  if (single && index)
    fail(ErrorKind::input, fmt::format("{} holds both {} and {}; which of them is the model is not known: remove one",
                                       folder.string(), kSingle, kIndex));
  if (index) {
    open_index(read_hf_file(folder, std::string(kIndex)));
    return;
  }
  if (!single)
    fail(ErrorKind::input,
         fmt::format("{} holds neither {} nor {}{}", folder.string(), kSingle, kIndex,
                     has_hf_file(folder, "pytorch_model.bin") || has_hf_file(folder, "pytorch_model.bin.index.json")
                         ? "; pytorch_model.bin is a pickle, which is not read: save it with "
                           "safe_serialization=True"
                         : ""));
  open(std::string(kSingle));
  for (const SafetensorsTensor& t : readers_.at(std::string(kSingle)).header().tensors)
    tensors_[t.name] = {&readers_.at(std::string(kSingle)), &t};
}

void HfSource::open(const std::string& name) {
  refuse_link(folder_ / name);
  as_input([&] { return readers_.emplace(name, SafetensorsReader(folder_ / name)).second; });
  names_.push_back(name);
}

void HfSource::open_index(const std::string& text) {
  const std::string source = (folder_ / kIndex).string();
  std::map<std::string, std::string> file_of;  // tensor -> file
  std::set<std::string> names;
  std::vector<std::string> faults;
  as_input([&] {
    const JsonNode root = parse_checkpoint_json(text, source);
    const JsonFields fields(root, source);
    const JsonFields map = fields.object("weight_map");
    for (const JsonNode::Member& member : *fields.node("weight_map").as<JsonNode::Object>()) {
      const std::string& name = map.text(member.key);
      if (!is_safe_relative_path(name) || name.find('/') != std::string::npos || !name.ends_with(".safetensors"))
        faults.push_back(
            fmt::format("{} is said to be in {}, which is no plain name of a safetensors file in this "
                        "folder",
                        in_quotes(member.key), in_quotes(name)));
      else
        names.insert(file_of[member.key] = name);
    }
    return true;
  });
  if (!faults.empty()) fail(ErrorKind::input, listed(source + ": weight_map names what cannot be read:", faults));
  for (const std::string& name : names) {
    if (has_hf_file(folder_, name))
      open(name);
    else
      faults.push_back(fmt::format("{} is not in the folder", name));
  }
  std::set<std::string_view> seen;
  for (const auto& [file, reader] : readers_)
    for (const SafetensorsTensor& t : reader.header().tensors) {
      seen.insert(t.name);
      const auto found = file_of.find(t.name);
      if (found == file_of.end())
        faults.push_back(fmt::format("{} is in {} and not in the index", in_quotes(t.name), file));
      else if (found->second != file)
        faults.push_back(fmt::format("{} is in {}, the index says {}", in_quotes(t.name), file, found->second));
      else
        tensors_[t.name] = {&reader, &t};
    }
  for (const auto& [tensor, file] : file_of)
    if (readers_.contains(file) && !seen.contains(tensor))
      faults.push_back(fmt::format("{} is in the index and not in {}", in_quotes(tensor), file));
  if (!faults.empty()) fail(ErrorKind::input, listed(source + " and the files it names disagree:", faults));
}

}  // namespace trainctl
