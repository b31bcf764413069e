// tests/unit/recipe/provenance_test.cpp -- where each value came from.
#include "recipe/provenance.h"

#include <map>

#include "recipe_test_support.h"

using namespace trainctl;

TEST_CASE("every key of a resolved recipe says where its value came from", "[recipe][provenance]") {
  const LoadedRecipe loaded = load_good({"optimizer.lr=0.5", "data.log_samples=true", "optimizer.lr=0.25"});
  const ResolveResult r = resolve(loaded, 8);
  REQUIRE(r.faults.empty());
  std::map<std::string, KeyOrigin> by_path;
  for (const KeyOrigin& k : key_origins(loaded, r.recipe)) {
    CHECK(by_path.count(k.path) == 0);
    by_path[k.path] = k;
  }
  CHECK(by_path.at("model.layers").origin == place_after("\"layers\": "));
  CHECK(by_path.at("data.train[0].path").origin == place_after("\"path\": "));
  CHECK(by_path.at("optimizer.eps").origin == "default");
  CHECK(by_path.at("runtime.micro_batches").origin == "derived");
  CHECK(by_path.at("parallelism.data_parallel").origin == "derived");
  CHECK(by_path.at("parallelism.data_parallel").value == "2");
  CHECK(by_path.at("data.log_samples").origin == "--set data.log_samples=true");
  // The file and two overrides at once: the last override counts, the file's value is not forgotten.
  CHECK(by_path.at("optimizer.lr").value == "0.25");
  CHECK(by_path.at("optimizer.lr").origin == "--set optimizer.lr=0.25 instead of 0.001 at line 5, column 24");
}
