// tests/cli/schema_test.cpp -- the printed schemas accept every file in recipes/, by an independent validator.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

// python3-jsonschema's verdict on each file: one line "PATH: ok" or "PATH: <what is wrong>".
SubprocessResult validate(const std::string& schema, const std::vector<std::string>& files) {
  std::vector<std::string> argv = {"python3", "-c", R"(
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
bad = 0
for path in sys.argv[2:]:
    errors = [e.message for e in validator.iter_errors(json.load(open(path)))]
    bad += bool(errors)
    print(path + ": " + ("; ".join(errors) if errors else "ok"))
sys.exit(1 if bad else 0)
)",
                                   schema};
  argv.insert(argv.end(), files.begin(), files.end());
  return run(argv);
}

std::string schema_file(const TemporaryFolder& folder, const std::string& which) {
  return folder.file(which + ".schema.json", run({program("trainctl"), "schema", which}).out);
}

std::vector<std::string> json_files(const std::string& where, const std::string& skipped_folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(where)))
    if (entry.path().extension() == ".json" &&
        (skipped_folder.empty() || entry.path().parent_path().filename() != skipped_folder))
      files.push_back(entry.path().string());
  return files;
}

}  // namespace

TEST_CASE("every recipe and topology of the project validates against the printed schema, and passes check", "[cli]") {
  const TemporaryFolder folder;
  const std::vector<std::string> recipes = json_files("recipes", "topologies");
  REQUIRE_FALSE(recipes.empty());
  const SubprocessResult r = validate(schema_file(folder, "recipe"), recipes);
  INFO(r.out << r.err);
  CHECK(r.exit_code == 0);
  for (const std::string& recipe : recipes) {
    const SubprocessResult checked = run({program("trainctl"), "check", recipe});
    INFO(checked.err);
    CHECK(checked.exit_code == 0);
  }
  const SubprocessResult t = validate(schema_file(folder, "topology"), json_files("recipes/topologies", ""));
  INFO(t.out << t.err);
  CHECK(t.exit_code == 0);
}

TEST_CASE("the schema refuses what check refuses: unknown keys, wrong types, values out of bounds", "[cli]") {
  const TemporaryFolder folder;
  const std::string schema = schema_file(folder, "recipe");
  const auto good = nlohmann::json::parse(R"({"name": "r",
    "model": {"family": "llama", "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16, "vocab": 10},
    "data": {"train": [{"path": "x"}], "sequence_tokens": 4}, "optimizer": {"lr": 0.1},
    "runtime": {"steps": 3, "micro_batch_size": 1}})");
  const SubprocessResult accepted = validate(schema, {folder.file("good.json", good.dump())});
  INFO(accepted.out << accepted.err);
  REQUIRE(accepted.exit_code == 0);
  const std::vector<std::pair<std::string, nlohmann::json>> changes = {
      {"/optimizer/learning_rate", 0.1}, {"/model/layers", "one"},  {"/model/layers", 0},    {"/model/family", "lama"},
      {"/runtime/steps", 1.5},           {"/data/train/0/wait", 1}, {"/model/vocab", "fill"}};
  for (const auto& [pointer, value] : changes) {
    INFO(pointer);
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    const std::string file = folder.file("bad.json", bad.dump());
    CHECK(validate(schema, {file}).exit_code == 1);
    CHECK(run({program("trainctl"), "check", file}).exit_code == 2);
  }
}

}  // namespace trainctl::testing
