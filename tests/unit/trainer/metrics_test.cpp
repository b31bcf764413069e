// tests/unit/trainer/metrics_test.cpp -- what stays of a file of step lines when a run starts, and what is told.
#include "trainer/metrics.h"

#include <filesystem>
#include <fstream>

#include "../data/data_test_support.h"
#include "support/catch.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using testing::ScratchFolder;

std::string step(int64_t number, const std::string& loss = "2.5") {
  return "{\"step\":" + std::to_string(number) + ",\"loss\":" + loss + "}\n";
}

std::string evaluation(int64_t number) { return "{\"step\":" + std::to_string(number) + ",\"eval_loss\":1.5}\n"; }

// metrics.jsonl in a folder of its own.
struct Metrics {
  ScratchFolder folder;
  fs::path file = folder.path() / "metrics.jsonl";
  explicit Metrics(const std::string& text) { write(text); }
  void write(const std::string& text) const { std::ofstream(file, std::ios::binary) << text; }
  std::string keep(int64_t last_step) const { return keep_steps(file, last_step, kMetricsValues); }
  std::string text() const { return read_file(file); }
  std::string aside(int n) const { return read_file(file.string() + "." + std::to_string(n)); }
  bool has_aside(int n) const { return fs::exists(file.string() + "." + std::to_string(n)); }
};

}  // namespace

TEST_CASE("steps up to the last one stay with their evaluations, later ones go, in silence", "[trainer][metrics]") {
  const Metrics metrics(step(1) + step(2, "null") + evaluation(2) + step(3) + evaluation(3) + "{\"step\":4,\"lo");
  CHECK(metrics.keep(2).empty());
  CHECK(metrics.text() == step(1) + step(2, "null") + evaluation(2));
  CHECK_FALSE(metrics.has_aside(1));
  CHECK(metrics.keep(2).empty());
  CHECK(metrics.text() == step(1) + step(2, "null") + evaluation(2));
}

TEST_CASE("lines that are no steps are told, and the file is kept aside as it was", "[trainer][metrics]") {
  const std::string deep(5000, '[');
  for (const std::string& line :
       {std::string("noise"), std::string("\xff\xfe\x01", 3), std::string(8, '\0'), std::string("{}"),
        std::string("[]"), std::string("null"), std::string("1"), std::string("\"x\""), std::string("{\"step\":2}"),
        std::string("{\"step\":\"2\",\"loss\":1}"), std::string("{\"step\":2.0,\"loss\":1}"),
        std::string("{\"step\":-1,\"loss\":1}"), std::string("{\"step\":18446744073709551615,\"loss\":1}"),
        std::string("{\"step\":1e300,\"loss\":1}"), std::string("{\"step\":2,\"loss\":\"x\"}"),
        std::string("{\"step\":2,\"loss\":{}}"), std::string("{\"step\":null,\"loss\":1}"), deep,
        std::string("{\"step\":2,\"samples\":[]}")}) {
    INFO(line.substr(0, 60));
    const std::string before = step(1) + line + "\n" + step(2);
    const Metrics metrics(before);
    CHECK_THAT(metrics.keep(2),
               Contains("metrics.jsonl: left out 1 line that could not be read") && Contains("metrics.jsonl.1"));
    CHECK(metrics.text() == step(1) + step(2));
    CHECK(metrics.aside(1) == before);
    CHECK(metrics.keep(2).empty());  // told once
    CHECK_FALSE(metrics.has_aside(2));
  }
  // A last line without an end is half a line of ours, or noise.
  CHECK(Metrics(step(1) + "{\"step\":2,\"loss\":2.").keep(2).empty());
  CHECK_THAT(Metrics(step(1) + "noise").keep(2), Contains("1 line that could not be read"));
}

TEST_CASE("each step stays once, as it was written last", "[trainer][metrics]") {
  const std::string before = step(1, "9.0") + step(2, "9.0") + evaluation(2) + step(1) + step(2) + evaluation(2);
  const Metrics metrics(before);
  CHECK_THAT(metrics.keep(2), Contains("3 lines of steps that it has twice"));
  CHECK(metrics.text() == step(1) + step(2) + evaluation(2));
  CHECK(metrics.aside(1) == before);
}

TEST_CASE("a start at step 0 keeps the steps of an earlier one aside, of the newest nine", "[trainer][metrics]") {
  const Metrics metrics("");
  CHECK(metrics.keep(0).empty());
  CHECK_FALSE(metrics.has_aside(1));
  for (int64_t start = 1; start <= 12; ++start) {
    metrics.write(step(start));
    CHECK_THAT(metrics.keep(0), Contains("1 line of an earlier start"));
    CHECK(metrics.text().empty());
  }
  for (int n = 1; n <= 9; ++n) CHECK(metrics.aside(n) == step(13 - n));
  CHECK_FALSE(metrics.has_aside(10));
}

TEST_CASE("a link to a file elsewhere stays one", "[trainer][metrics]") {
  const Metrics metrics("");
  const fs::path elsewhere = metrics.folder.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::remove(metrics.file);
  fs::create_symlink("elsewhere/m.jsonl", metrics.file);
  CHECK(metrics.keep(0).empty());  // what it leads to is not there yet
  CHECK(read_file(elsewhere / "m.jsonl").empty());
  std::ofstream(elsewhere / "m.jsonl") << step(1) << step(2) << step(3);
  CHECK(metrics.keep(2).empty());
  CHECK(fs::is_symlink(metrics.file));
  CHECK(read_file(elsewhere / "m.jsonl") == step(1) + step(2));
  CHECK(std::distance(fs::directory_iterator(elsewhere), {}) == 1);
}

TEST_CASE("samples have lines of their own", "[trainer][metrics]") {
  const Metrics metrics("{\"step\":1,\"samples\":[[0,0,1]]}\n{\"step\":2,\"samples\":[[0,0,2]]}\n");
  CHECK(keep_steps(metrics.file, 1, kSamplesValues).empty());
  CHECK(metrics.text() == "{\"step\":1,\"samples\":[[0,0,1]]}\n");
}

}  // namespace trainctl
