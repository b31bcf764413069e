// lib/checkpoint/manifest_check.cpp -- the rules that span a whole manifest.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json_node.h"
#include "checkpoint/completeness.h"
#include "checkpoint/format.h"

namespace trainctl {
namespace {

struct Extent {
  int64_t begin = 0, end = 0;
  const TensorRecord* tensor = nullptr;
};

std::string label_of(const TensorRecord& t) { return fmt::format("tensor {} ({})", in_quotes(t.name), t.role); }

void check_classes(const Manifest& m, const std::function<void(const std::string&)>& refuse) {
  std::set<std::string> meta;
  for (const MetaRecord& f : m.meta) {
    if (!f.path.starts_with("meta/")) refuse(fmt::format("meta file {} lies outside meta/", in_quotes(f.path)));
    if (!meta.insert(f.path).second) refuse(fmt::format("meta file {} is listed twice", in_quotes(f.path)));
  }
  const auto check = [&](const std::string& name, const StateClass& c) {
    if (m.kind == "training" && c.state == "absent")
      refuse(fmt::format("a training checkpoint needs every state class, {} is absent", in_quotes(name)));
    if (c.where.starts_with("meta/") && meta.count(c.where) == 0)
      refuse(fmt::format("state class {} is said to be in {}, which is not listed", in_quotes(name), c.where));
  };
  std::set<std::string_view> there;
  for (const StateClass& c : m.completeness) {
    check(c.name, c);
    for (const StateClass& part : c.parts) check(c.name + "." + part.name, part);
    there.insert(c.name);
  }
  for (const std::string_view name : kStateClasses)
    if (m.kind == "training" && there.count(name) == 0)
      refuse(fmt::format("a training checkpoint needs every state class, {} is not in the table", in_quotes(name)));
}

}  // namespace

void check_manifest_but_tensors(const Manifest& m, const std::string& source) {
  const auto refuse = [&source](const std::string& what) {
    fail(ErrorKind::checkpoint, fmt::format("{}: {}", source, what));
  };
  std::set<std::string> files, receipts;
  for (const FileRecord& f : m.files)
    if (!files.insert(f.path).second) refuse(fmt::format("file {} is listed twice", in_quotes(f.path)));
  for (const ReceiptRecord& r : m.receipts)
    if (!receipts.insert(r.path).second) refuse(fmt::format("receipt {} is listed twice", in_quotes(r.path)));
  check_classes(m, refuse);
}

void check_manifest(const Manifest& m, const std::string& source) {
  check_manifest_but_tensors(m, source);
  const auto refuse = [&source](const std::string& what) {
    fail(ErrorKind::checkpoint, fmt::format("{}: {}", source, what));
  };
  std::map<std::string_view, const FileRecord*> files;
  for (const FileRecord& f : m.files) files.emplace(f.path, &f);
  std::map<std::pair<std::string_view, std::string_view>, const TensorRecord*> tensors;
  for (const TensorRecord& t : m.tensors)
    if (!tensors.try_emplace({t.name, t.role}, &t).second) refuse(label_of(t) + " is listed twice");

  std::map<std::string_view, std::vector<Extent>> used;
  std::vector<Box> boxes;
  for (const TensorRecord& t : m.tensors) {
    if (!t.alias_of.empty() || !t.derived_from_role.empty()) {
      if (!t.chunks.empty() || (!t.alias_of.empty() && !t.derived_from_role.empty()))
        refuse(label_of(t) + " is an alias or derived and yet has chunks of its own");
      const auto target =
          t.alias_of.empty() ? tensors.find({t.name, t.derived_from_role}) : tensors.find({t.alias_of, t.role});
      if (target == tensors.end()) refuse(label_of(t) + " points at a tensor that is not here");
      const TensorRecord& source_tensor = *target->second;
      if (!source_tensor.alias_of.empty() && !t.alias_of.empty()) refuse(label_of(t) + " is an alias of an alias");
      if (!source_tensor.derived_from_role.empty() && t.alias_of.empty())
        refuse(label_of(t) + " is derived from a derived tensor");
      if (source_tensor.shape != t.shape)
        refuse(fmt::format("{} has the shape {}, what it points at has {}", label_of(t), to_string(t.shape),
                           to_string(source_tensor.shape)));
      const bool dtypes_fit = t.alias_of.empty() ? t.dtype == DType::bf16 && source_tensor.dtype == DType::f32
                                                 : t.dtype == source_tensor.dtype;
      if (!dtypes_fit)
        refuse(fmt::format("{} is {}, which does not follow from {}", label_of(t), name(t.dtype),
                           name(source_tensor.dtype)));
      continue;
    }
    boxes.clear();
    for (const ChunkRecord& c : t.chunks) {
      const auto file = files.find(c.file);
      if (file == files.end()) refuse(fmt::format("{}: its file {} is not listed", label_of(t), in_quotes(c.file)));
      if (c.byte_offset < file->second->header_bytes || c.byte_length > file->second->bytes - c.byte_offset)
        refuse(
            fmt::format("{}: bytes [{}, +{}) leave the data of {}", label_of(t), c.byte_offset, c.byte_length, c.file));
      boxes.push_back(c.box);
      if (c.byte_length > 0) used[c.file].push_back({c.byte_offset, c.byte_offset + c.byte_length, &t});
    }
    if (const std::string fault = cover_fault(t.shape, boxes); !fault.empty()) refuse(label_of(t) + ": " + fault);
  }
  for (auto& [file, extents] : used) {
    std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < extents.size(); ++i)
      if (extents[i].begin < extents[i - 1].end)
        refuse(fmt::format("{} and {} share bytes of {}", label_of(*extents[i - 1].tensor),
                           label_of(*extents[i].tensor), file));
  }
}

}  // namespace trainctl
