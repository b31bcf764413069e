// tests/unit/launch/metrics_tail_test.cpp -- each line once, whatever the writer does.
#include "launch/metrics_tail.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/hostile_json.h"
#include "support/subprocess.h"

namespace trainctl {
namespace {

std::string step(int number, double loss) {
  return "{\"step\":" + std::to_string(number) + ",\"loss\":" + std::to_string(loss) + "}\n";
}

void append(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::app) << text;
}

std::vector<int64_t> steps(const std::vector<MetricsLine>& lines) {
  std::vector<int64_t> result;
  for (const MetricsLine& line : lines) result.push_back(line.step);
  return result;
}

}  // namespace

TEST_CASE("lines are returned once, and only when they are complete", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  MetricsTail tail(file);
  CHECK(tail.poll().empty());
  append(file, step(1, 3) + step(2, 2).substr(0, 5));
  CHECK(steps(tail.poll()) == std::vector<int64_t>{1});
  append(file, step(2, 2).substr(5));
  CHECK(steps(tail.poll()) == std::vector<int64_t>{2});
  CHECK(tail.poll().empty());
  CHECK(tail.last_step() == 2);
}

TEST_CASE("lines of an earlier run are not returned, evaluations are", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  append(file, step(1, 3));
  MetricsTail tail(file);
  append(file, "{\"step\":1,\"eval_loss\":2.5}\n" + step(2, 2));
  const std::vector<MetricsLine> lines = tail.poll();
  REQUIRE(steps(lines) == std::vector<int64_t>{1, 2});
  CHECK(lines[0].eval_loss == 2.5);
  CHECK_FALSE(lines[1].eval_loss);
}

TEST_CASE("after the file was cut back, repeated steps are returned and kept ones are not", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  append(file, step(1, 3) + step(2, 2) + step(3, 1));
  const auto kept = static_cast<uintmax_t>(step(1, 3).size());
  SECTION("and grew less") {
    MetricsTail tail(file);
    std::filesystem::resize_file(file, kept);
    CHECK(tail.poll().empty());
    append(file, step(2, 1.5));
    CHECK(steps(tail.poll()) == std::vector<int64_t>{2});
  }
  SECTION("and grew beyond its old size before anybody looked") {
    MetricsTail tail(file);
    std::filesystem::resize_file(file, kept);
    append(file, step(2, 1.5) + step(3, 0.5) + step(4, 0.25));
    CHECK(steps(tail.poll()) == std::vector<int64_t>{2, 3, 4});
  }
  SECTION("and lost lines that were no metrics, or in the middle") {
    append(file, "garbage\n" + step(3, 0.75) + step(4, 0.5) + "{\"step\":5,\"lo");
    MetricsTail tail(file);
    const auto other = folder.path() / "other";
    append(other, step(1, 3) + step(3, 0.75) + step(4, 0.5));
    std::filesystem::rename(other, file);
    CHECK(tail.poll().empty());
    append(file, step(5, 0.25));
    CHECK(steps(tail.poll()) == std::vector<int64_t>{5});
  }
  SECTION("and was replaced by another file") {
    MetricsTail tail(file);
    const auto other = folder.path() / "other";
    append(other, step(1, 3) + step(2, 1.5));
    std::filesystem::rename(other, file);
    CHECK(steps(tail.poll()) == std::vector<int64_t>{2});
  }
}

TEST_CASE("what is no metrics line is passed over", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  MetricsTail tail(file);
  append(file, "\n{}\nnull\n{\"step\":\"x\",\"loss\":1}\n{\"step\":4}\n[1]\n{\"step\":5,\"loss\":null}\n" + step(6, 1));
  CHECK(steps(tail.poll()) == std::vector<int64_t>{5, 6});
}

TEST_CASE("a loss that was no number is not shown as zero", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  MetricsTail tail(file);
  append(file, "{\"step\":1,\"eval_loss\":null}\n");
  const std::vector<MetricsLine> lines = tail.poll();
  REQUIRE(lines.size() == 1);
  REQUIRE(lines[0].eval_loss);
  CHECK(std::isnan(*lines[0].eval_loss));
}

TEST_CASE("lines that are no metrics, whatever they are, are passed over", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  MetricsTail tail(file);
  int64_t good = 0;
  for (const std::string& text : testing::hostile_json()) append(file, text + "\n" + step(1, 1));
  for (const MetricsLine& line : tail.poll()) good += line.step == 1 ? 1 : 0;
  CHECK(good == std::ssize(testing::hostile_json()));
}

}  // namespace trainctl
