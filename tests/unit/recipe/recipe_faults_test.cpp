// tests/unit/recipe/recipe_faults_test.cpp -- all faults of a recipe at once, each where it stands.
#include "recipe_test_support.h"

using namespace trainctl;

namespace {

// `text` with its only occurrence of `from` replaced.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Slip {
  std::string from, to, message;
};

// Independent of each other; each is one fault.
const std::vector<Slip> kSlips = {
    {"\"good\"", "\"go od\"", "r.json:1:11: name: \"go od\" must be"},
    {"\"layers\": 8", "\"layers\": \"8\"", "model.layers: must be an integer in [1, 100000], found the string \"8\""},
    {"\"d_model\"", "\"d-model\"", "unknown key \"d-model\" in \"model\"; it is spelt \"d_model\" here"},
    {"\"kv_heads\": 4", "\"kv_heads\": 3", "model.kv_heads: 3 does not divide heads 8"},
    {"\"d_ff\": 128", "\"d_ff\": 128, \"vocab\": NaN", "model.vocab: NaN is not JSON"},
    {"[ { \"path\"", "[ { \"weigth\": 1, \"path\"",
     "unknown key \"weigth\" in \"data.train[0]\"; did you mean \"weight\"?"},
    {"\"sequence_tokens\": 32 }", "\"sequence_tokens\": 32, }", "data: trailing comma"},
    {"\"validation_fraction\": 0.01", "\"validation_fraction\": 2", "data.validation_fraction: 2 must be in [0, 1)"},
    {"\"pipeline_parallel\": 2", "\"pipeline_parallel\": 2, \"order\": \"tp\"", "parallelism.order: \"tp\" must name"},
    {"\"tensor_parallel\": 2", "\"tensor_parallel\": 2, \"lr\": 1", "it belongs elsewhere: \"lr\" in \"optimizer\""},
    {"\"lr\": 1e-3", "\"learning_rat\": 1e-3", "unknown key \"learning_rat\" in \"optimizer\"; did you mean \"lr\"?"},
    {"\"cosine\"", "\"cosine\", \"min_lr_ratio\": 1e400", "optimizer.schedule.min_lr_ratio: 1e400 is out of range"},
    {"\"warmup_steps\": 20", "\"warmup_steps\": 20, \"warmup_steps\": 30", "duplicate key \"warmup_steps\""},
    {"\"global_batch_size\": 16", "\"global_batch_size\": 15", "runtime.global_batch_size: global_batch_size 15 = "},
    {"\"steps\": 200,", "\"steps\": 200, // why\n", "comments are not JSON"},
};

}  // namespace

TEST_CASE("each slip in a recipe is one fault at its own place", "[recipe][faults]") {
  for (const Slip& s : kSlips) {
    INFO(s.to);
    check_one_fault(faults_of({}, changed(kGoodRecipe, s.from, s.to)), {s.message});
  }
}

TEST_CASE("any set of independent slips is reported completely, in the order of the file", "[recipe][faults]") {
  for (unsigned round = 0; round < 200; ++round) {
    const unsigned chosen = round == 0 ? 0x7fffu : (round * 2654435761u) >> 17;  // 15 bits
    std::string text = kGoodRecipe;
    int64_t expected = 0;
    for (size_t i = 0; i < kSlips.size(); ++i)
      if (chosen >> i & 1u) {
        const Slip& s = kSlips[i];
        text = changed(text, s.from, s.to);
        ++expected;
      }
    const std::string faults = faults_of({}, text);
    INFO(text << "\n" << faults);
    CHECK(count_lines(faults) == expected);
    for (size_t i = 0; i < kSlips.size(); ++i)
      CHECK((faults.find(kSlips[i].message) != std::string::npos) == ((chosen >> i & 1u) != 0));
  }
}

TEST_CASE("missing sections and keys are named once each, and nothing follows from them", "[recipe][faults]") {
  const std::string none = faults_of({}, "{}");
  CHECK(count_lines(none) == 5);
  for (const char* section : {"model", "data", "optimizer", "runtime"})
    CHECK_THAT(none, Catch::Contains(std::string(section) + ": required section \"" + section + "\" is missing"));
  CHECK_THAT(none, Catch::Contains("name: required key \"name\" is missing"));
  check_one_fault(
      faults_of({}, changed(kGoodRecipe, "\"family\": \"llama\", ", "")),
      {"r.json:2:12: model.family: required key \"family\" is missing in \"model\"; it takes one of \"gpt2\""});
}

TEST_CASE("files that are no recipe are refused plainly", "[recipe][faults]") {
  check_one_fault(faults_of({}, ""), {"r.json:1:1: the file is empty"});
  check_one_fault(faults_of({}, "[1]"), {"the file must hold a JSON object"});
  check_one_fault(faults_of({}, "{\"name\": "), {"ends where a value is needed"});
  check_one_fault(faults_of({}, "\xEF\xBB\xBF" + kGoodRecipe), {"byte order mark"});
  CHECK_THROWS_WITH(load_recipe("/no/such/recipe.json"), Catch::Contains("cannot read /no/such/recipe.json"));
}

TEST_CASE("faults of overrides are blamed on the override", "[recipe][faults]") {
  check_one_fault(faults_of({"model.kv_heads=3"}), {"r.json: model.kv_heads", "(set by --set model.kv_heads=3)"});
  check_one_fault(faults_of({"optimizer.learning-rate=1"}),
                  {"it is spelt \"lr\" here", "(set by --set optimizer.learning-rate=1)"});
  CHECK_THROWS_WITH(load_good({"model.layers"}), Catch::Contains("there is no \"=\""));
}
