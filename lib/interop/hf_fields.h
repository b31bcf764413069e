// lib/interop/hf_fields.h -- the fields of a config.json: read with their faults, and those that nobody read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace trainctl {

// Reads what a family uses; every fault is collected. Null counts as absent, as the classes of transformers take it.
class HfFields {
 public:
  using json = nlohmann::json;
  // `config` outlives this. `harmless`: fields that are known not to matter, beside those of kMeansNothing.
  HfFields(const json& config, const std::vector<std::string>& harmless);

  void fault(const std::string& what) { faults_.push_back(what); }
  void note(const std::string& what) { notes_.push_back(what); }
  const std::vector<std::string>& faults() const { return faults_; }
  std::vector<std::string>& notes() { return notes_; }

  const json* find(const std::string& key);                // null when absent
  std::optional<int64_t> integer(const std::string& key);  // empty when absent or none
  int64_t required(const std::string& key);                // 0 with a fault
  double number(const std::string& key, double otherwise);
  bool flag(const std::string& key, bool otherwise);
  std::string word(const std::string& key, const std::string& otherwise);
  // A field that changes results and has one value here.
  void must_be(const std::string& key, const json& value, const std::string& why);
  RopeConfig rope(int64_t max_positions);
  // What was neither looked for nor means nothing is a fault.
  void refuse_unknown();

 private:
  double number_in(const json& object, const std::string& key, const std::string& shown, double otherwise);
  void read_scaling(const json& scaling, const std::string& where, int64_t max_positions, RopeConfig& rope);

  const json& config_;
  std::set<std::string> known_;
  std::vector<std::string> faults_, notes_;
};

}  // namespace trainctl
