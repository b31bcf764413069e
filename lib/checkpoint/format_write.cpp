// lib/checkpoint/format_write.cpp -- checkpoint records to canonical JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/format.h"
#include "checkpoint/record_text.h"
#include "checkpoint/tensor_text.h"

namespace trainctl {
namespace {

using nlohmann::json;

// Names of files may hold any byte; JSON may not.
std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json schema(std::string_view name) { return record_schema(name); }

json to_json(const FileRecord& f) {
  return {{"path", f.path},          {"rank", f.rank},
          {"bytes", f.bytes},        {"header_bytes", f.header_bytes},
          {"block", kBlockBytes},    {"block_xxh128", f.block_xxh128},
          {"file_root", f.file_root}};
}

// The text of an object up to the list of a further member, "tensors", which comes after all of its own.
std::string head_of(const json& before) {
  std::string text = dump(before);
  text.back() = ',';
  return text += R"("tensors":)";
}

// Of an object with that member at its place in the order: the text before the list, and the text after it, which
// begins with the members that come later.
TextAround around_tensors(json value) {
  json::object_t& members = value.get_ref<json::object_t&>();
  json::object_t after;
  for (auto it = members.upper_bound("tensors"); it != members.end();) after.insert(members.extract(it++));
  TextAround text{head_of(value), dump(json(std::move(after)))};
  text.after.front() = ',';
  return text;
}

template <class T>
json list_of(const std::vector<T>& items) {
  json list = json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

json opaque(const std::string& text, std::string_view what) {
  if (text.empty()) return json::object();
  json value = json::parse(text, nullptr, false);
  ensure(value.is_object(), fmt::format("the {} handed to a checkpoint is no JSON object", what));
  return value;
}

json to_json(const std::vector<StateClass>& classes) {
  json value = json::object();
  for (const StateClass& c : classes) {
    json& one = value[c.name] = {{"state", c.state}, {"where", c.where}};
    if (!c.parts.empty()) one["parts"] = to_json(c.parts);
  }
  return value;
}

[[noreturn]] void refuse_digest(const std::string& source) {
  fail(ErrorKind::checkpoint,
       fmt::format("{} is damaged: its text does not agree with its own digest (self_xxh128)", source));
}

std::string hex_float(double value) { return fmt::format("{:a}", value); }  // exact; nan and inf keep their names

}  // namespace

json record_schema(std::string_view name) { return {{"name", name}, {"major", kSchemaMajor}, {"minor", kSchemaMinor}}; }

std::string with_self_digest(json value) {
  const std::string bare = dump(value);
  value["self_xxh128"] = xxh128_hex(bare.data(), bare.size());
  return dump(value) + "\n";
}

std::string with_receipt_digest(json value, std::string_view tensors) {
  const std::string bare = head_of(value);
  Xxh128 digest;
  digest.update(bare.data(), bare.size());
  digest.update(tensors.data(), tensors.size());
  digest.update(kReceiptEnd.data(), 1);
  value["self_xxh128"] = digest.hex();
  return head_of(value);
}

std::string receipt_head(const Receipt& r, std::string_view tensors) {
  json value = {{"schema", schema("trainctl-receipt")},
                {"attempt", r.attempt},
                {"step", r.step},
                {"rank", r.rank},
                {"status", r.ok ? "ok" : "failed"},
                {"reason", r.reason},
                {"non_finite", r.non_finite},
                {"files", list_of(r.files)}};
  return with_receipt_digest(std::move(value), tensors);
}

void check_canonical(const std::string& expected, std::string_view text, const std::string& source) {
  if (expected == text) return;
  json value = json::parse(text, nullptr, false);
  if (value.is_object() && value.erase("self_xxh128") == 1 && with_self_digest(std::move(value)) == text) return;
  refuse_digest(source);
}

void check_receipt_head(const std::string& expected, std::string_view head, std::string_view tensors,
                        const std::string& source) {
  if (expected == head) return;
  json value = json::parse(std::string(head) + "[]}", nullptr, false);
  if (value.is_object() && value.erase("self_xxh128") == 1 && value.erase("tensors") == 1 &&
      with_receipt_digest(std::move(value), tensors) == head)
    return;
  refuse_digest(source);
}

std::string to_text(const Receipt& r) {
  const std::string tensors = tensors_text(r.tensors);
  return receipt_head(r, tensors).append(tensors).append(kReceiptEnd);
}

std::string to_text(const Manifest& m) {
  const TextAround text = text_around_tensors(m);
  return text.before + tensors_text(m.tensors) + text.after;
}

TextAround text_around_tensors(const Manifest& m) {
  json value = {{"schema", schema("trainctl-checkpoint")},
                {"kind", m.kind},
                {"run_id", m.run_id},
                {"attempt", m.attempt},
                {"step", m.step},
                {"created_ns", m.created_ns},
                {"parent", m.parent},
                {"reason", m.reason},
                {"world", m.world},
                {"topology", opaque(m.topology, "topology")},
                {"provenance", opaque(m.provenance, "provenance")},
                {"files", list_of(m.files)}};
  value["completeness"] = to_json(m.completeness);
  json& receipts = value["receipts"] = json::array();
  for (const ReceiptRecord& r : m.receipts)
    receipts.push_back({{"path", r.path}, {"rank", r.rank}, {"bytes", r.bytes}, {"xxh128", r.xxh128}});
  json& meta = value["meta"] = json::array();
  for (const MetaRecord& f : m.meta) meta.push_back({{"path", f.path}, {"bytes", f.bytes}, {"xxh128", f.xxh128}});
  const ScalarState& s = m.scalars;
  value["scalars"] = {{"step", s.step},
                      {"last_loss", hex_float(s.last_loss)},
                      {"last_grad_norm", hex_float(s.last_grad_norm)},
                      {"non_finite_count", s.non_finite_count},
                      {"non_finite_elements", m.non_finite}};
  value["data"] = {{"consumed_samples", s.consumed_samples},
                   {"consumed_tokens", s.consumed_tokens},
                   {"fingerprint", s.data_fingerprint}};
  if (!s.data_state.empty()) value["data"]["state"] = opaque(s.data_state, "state of the data");
  value["rng"] = {{"algorithm", "philox4x32-10"}, {"seed", s.seed}, {"continuity", "exact"}};
  value["low_precision"] = json::object();
  value["digest_policy"] = {{"blocks", "xxh3-128"},
                            {"block_bytes", kBlockBytes},
                            {"file_root", "xxh3-128 of the concatenated block digests"},
                            {"receipts", "xxh3-128"},
                            {"meta", "xxh3-128"},
                            {"manifest", "sha-256"}};
  TextAround text = around_tensors(std::move(value));
  text.after += '\n';
  return text;
}

std::string to_text(const Committed& c) {
  return with_self_digest({{"schema", schema("trainctl-committed")},
                           {"step", c.step},
                           {"attempt", c.attempt},
                           {"kind", c.kind},
                           {"manifest_sha256", c.manifest_sha256},
                           {"manifest_bytes", c.manifest_bytes},
                           {"files", c.files},
                           {"bytes", c.bytes}});
}

std::string to_text(const Latest& l) {
  return with_self_digest({{"schema", schema("trainctl-latest")},
                           {"step", l.step},
                           {"folder", l.folder},
                           {"manifest_sha256", l.manifest_sha256}});
}

std::string to_text(const Unusable& u) {
  return with_self_digest({{"schema", schema("trainctl-unusable")},
                           {"reason", u.reason},
                           {"detector", u.detector},
                           {"evidence", u.evidence},
                           {"time_ns", u.time_ns}});
}

std::string file_root_of(const std::vector<std::string>& blocks) {
  std::string all;
  for (const std::string& block : blocks) all += block;
  return xxh128_hex(all.data(), all.size());
}

std::string folder_name_of(int64_t step) { return fmt::format("step-{:08}", step); }

std::string receipt_path(int64_t rank) { return fmt::format("receipts/rank-{:05}.json", rank); }

}  // namespace trainctl
