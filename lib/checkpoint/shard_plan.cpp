// lib/checkpoint/shard_plan.cpp -- assigning a catalog's entries to the files of one rank.
#include "checkpoint/shard_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/transfers.h"

namespace trainctl {
namespace {

void check_entry(const StateEntry& e) {
  const auto require = [&e](bool holds, std::string_view what) {
    if (!holds) fail(ErrorKind::internal, fmt::format("state entry \"{}\" ({}): {}", e.name, e.role, what));
  };
  require(!e.name.empty() && !e.role.empty(), "it has no name or no role");
  require(e.name.find('|') == std::string::npos && e.role.find('|') == std::string::npos,
          "'|' separates the parts of a shard's key and is not legal in names");
  require(e.box.offset.rank() == e.shape.rank() && e.box.extent.rank() == e.shape.rank(),
          "shape and box differ in the number of dimensions");
  for (int d = 0; d < e.shape.rank(); ++d)
    require(e.box.offset[d] >= 0 && e.box.extent[d] >= 0 && e.box.offset[d] <= e.shape[d] - e.box.extent[d],
            "the box leaves the logical shape");
  require(e.local && e.local.contiguous(), "the local tensor is missing or not contiguous");
  require(e.local.numel() == e.box.extent.numel(), "the local tensor and the box differ in size");
}

std::string key_of(const StateEntry& e) {
  std::string key = e.name + "|" + e.role + "|";
  for (int d = 0; d < e.box.offset.rank(); ++d) {
    if (d > 0) key += ',';
    key += std::to_string(e.box.offset[d]);
  }
  return key;
}

// entry index of a derived bf16 weight -> of its master, and back.
std::map<size_t, size_t> derivations(const StateCatalog& catalog) {
  std::map<std::string_view, std::vector<size_t>> masters;  // by name
  for (size_t i = 0; i < catalog.size(); ++i)
    if (catalog[i].role == "master" && catalog[i].local.dtype() == DType::f32 && catalog[i].alias_of.empty())
      masters[catalog[i].name].push_back(i);
  std::map<size_t, size_t> master_of;
  for (size_t i = 0; i < catalog.size(); ++i) {
    const StateEntry& w = catalog[i];
    if (w.role != "weight" || w.local.dtype() != DType::bf16 || !w.alias_of.empty()) continue;
    const auto found = masters.find(w.name);
    if (found == masters.end()) continue;
    for (const size_t m : found->second)
      if (catalog[m].box == w.box && catalog[m].owner == w.owner) master_of[i] = m;
  }
  return master_of;
}

bool is_model_state(std::string_view role) { return role == "weight" || role == "master" || role == "buffer"; }

TensorRecord record_of(const StateEntry& e) {
  TensorRecord record;
  record.name = e.name;
  record.role = e.role;
  record.dtype = e.local.dtype();
  record.shape = e.shape;
  return record;
}

struct Chosen {
  size_t entry;
  int64_t derived;
  std::string key;
};

void append_file(ShardPlan& plan, const StateCatalog& catalog, std::vector<Chosen> chosen, std::string_view stem,
                 int64_t rank) {
  if (chosen.empty()) return;
  std::sort(chosen.begin(), chosen.end(), [&catalog](const Chosen& a, const Chosen& b) {
    const StateEntry &x = catalog[a.entry], &y = catalog[b.entry];
    const int64_t wide = size_of(x.local.dtype()), other = size_of(y.local.dtype());
    return wide != other ? wide > other : a.key < b.key;
  });
  PlannedFile file;
  file.record.path = fmt::format("data/{}-r{:05}.safetensors", stem, rank);
  file.record.rank = rank;
  file.image_offset = plan.image_bytes;
  for (const Chosen& c : chosen) {
    const StateEntry& e = catalog[c.entry];
    SafetensorsTensor tensor{c.key, safetensors_dtype(e.local.dtype()), {}, 0, 0};
    for (int d = 0; d < e.box.extent.rank(); ++d) tensor.shape.push_back(e.box.extent[d]);
    file.header.push_back(std::move(tensor));
    file.tensors.push_back({c.entry, c.derived, 0, e.local.bytes()});
  }
  file.record.header_bytes = static_cast<int64_t>(
      encode_safetensors_header(file.header, shard_metadata("", std::string(32, '0'), 0, 0)).size());
  file.record.bytes = file.record.header_bytes + file.header.back().end;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const StateEntry& e = catalog[chosen[i].entry];
    const int64_t at = file.record.header_bytes + file.header[i].begin;
    file.tensors[i].image_offset = file.image_offset + at;
    TensorRecord record = record_of(e);
    record.chunks.push_back({e.box, file.record.path, file.header[i].name, at, e.local.bytes()});
    plan.records.push_back(std::move(record));
  }
  plan.image_bytes += round_up(file.record.bytes, kDirectAlignment);
  plan.files.push_back(std::move(file));
}

}  // namespace

ShardPlan plan_shards(const StateCatalog& catalog, int64_t rank) {
  ShardPlan plan;
  std::vector<Chosen> model, optim;
  const std::map<size_t, size_t> master_of = derivations(catalog);
  std::map<size_t, size_t> weight_of;
  for (const auto& [weight, master] : master_of) weight_of[master] = weight;
  for (size_t i = 0; i < catalog.size(); ++i) {
    const StateEntry& e = catalog[i];
    check_entry(e);
    if (!e.alias_of.empty()) {
      plan.records.push_back(record_of(e));
      plan.records.back().alias_of = e.alias_of;
    } else if (master_of.count(i)) {
      plan.records.push_back(record_of(e));
      plan.records.back().derived_from_role = "master";
    } else if (e.owner && (e.box.extent.numel() > 0 || e.shape.numel() == 0)) {
      const auto derived = weight_of.find(i);
      Chosen c = {i, derived == weight_of.end() ? -1 : static_cast<int64_t>(derived->second), key_of(e)};
      (is_model_state(e.role) ? model : optim).push_back(std::move(c));
    }
  }
  append_file(plan, catalog, std::move(model), "model", rank);
  append_file(plan, catalog, std::move(optim), "optim", rank);
  return plan;
}

int64_t staging_bytes(const ShardPlan& plan) { return plan.image_bytes == 0 ? 0 : plan.image_bytes + kDirectAlignment; }

int64_t staging_bytes(const StateCatalog& catalog) { return staging_bytes(plan_shards(catalog, 0)); }

std::string catalog_fingerprint(const StateCatalog& catalog) {
  // Every part says its length, so that no two catalogs give the same bytes.
  std::string text;
  const auto number = [&text](int64_t value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto word = [&](std::string_view value) {
    number(std::ssize(value));
    text += value;
  };
  const auto shape = [&](const Shape& value) {
    number(value.rank());
    for (int d = 0; d < value.rank(); ++d) number(value[d]);
  };
  for (const StateEntry& e : catalog) {
    word(e.name);
    word(e.role);
    number(static_cast<int64_t>(e.local.dtype()));
    shape(e.shape);
    shape(e.box.offset);
    shape(e.box.extent);
    number(e.owner);
    word(e.alias_of);
  }
  return xxh128_hex(text.data(), text.size());
}

std::map<std::string, std::string> shard_metadata(const std::string& run_id, const std::string& attempt, int64_t step,
                                                  int64_t rank) {
  return {{"format", "trainctl-shard-1"},
          {"run", xxh128_hex(run_id.data(), run_id.size())},
          {"attempt", attempt},
          {"step", fmt::format("{:019}", step)},
          {"rank", fmt::format("{:08}", rank)}};
}

}  // namespace trainctl
