// tests/unit/recipe/batch_test.cpp -- global = micro_batch_size x micro_batches x data_parallel.
#include "recipe/batch.h"

#include "recipe_test_support.h"

using namespace trainctl;

namespace {

RuntimeConfig batch(std::optional<int64_t> size, std::optional<int64_t> count, std::optional<int64_t> global) {
  RuntimeConfig r;
  r.micro_batch_size = size;
  r.micro_batches = count;
  r.global_batch_size = global;
  return r;
}

}  // namespace

TEST_CASE("any two of the three batch numbers give the third, for every solution of the equation", "[recipe][batch]") {
  for (int64_t size = 1; size <= 5; ++size)
    for (int64_t count = 1; count <= 5; ++count)
      for (int64_t dp = 1; dp <= 4; ++dp) {
        const int64_t global = size * count * dp;
        for (const RuntimeConfig& given :
             {batch(size, count, {}), batch(size, {}, global), batch({}, count, global), batch(size, count, global)}) {
          const BatchNumbers b = solve_batch(given, dp);
          CHECK(b.fault == "");
          CHECK(b.micro_batch_size == size);
          CHECK(b.micro_batches == count);
          CHECK(b.global_batch_size == global);
        }
      }
}

TEST_CASE("a solution is found exactly when there is one", "[recipe][batch]") {
  for (int64_t known = 1; known <= 9; ++known)
    for (int64_t dp = 1; dp <= 5; ++dp)
      for (int64_t global = 1; global <= 40; ++global) {
        bool exists = false;
        for (int64_t other = 1; other <= global; ++other) exists = exists || known * other * dp == global;
        CHECK(solve_batch(batch(known, {}, global), dp).fault.empty() == exists);
        CHECK(solve_batch(batch({}, known, global), dp).fault.empty() == exists);
      }
}

TEST_CASE("one number alone means micro-batches of one sequence, or one micro-batch of the size given",
          "[recipe][batch]") {
  const BatchNumbers global = solve_batch(batch({}, {}, 12), 3);
  CHECK(global.micro_batch_size == 1);
  CHECK(global.micro_batches == 4);
  const BatchNumbers count = solve_batch(batch({}, 5, {}), 3);
  CHECK(count.micro_batch_size == 1);
  CHECK(count.global_batch_size == 15);
  const BatchNumbers size = solve_batch(batch(5, {}, {}), 3);
  CHECK(size.micro_batches == 1);
  CHECK(size.global_batch_size == 15);
}

TEST_CASE("a batch without a solution prints the equation and the nearest legal numbers", "[recipe][batch]") {
  check_one_fault(solve_batch(batch(2, {}, 16), 3).fault,
                  {"global_batch_size 16 = micro_batch_size 2 x micro_batches ? x data_parallel 3",
                   "16 / (2 x 3) = 2.667", "the nearest legal global_batch_size: 12 or 18", "data_parallel: 2 or 4"});
  check_one_fault(solve_batch(batch({}, 3, 8), 2).fault,
                  {"global_batch_size 8 = micro_batch_size ? x micro_batches 3 x data_parallel 2", "6 or 12",
                   "micro_batches: 2 or 4"});
  check_one_fault(solve_batch(batch({}, {}, 8), 3).fault, {"8 / (1 x 3)", "6 or 9"});
  check_one_fault(solve_batch(batch(16, {}, 8), 1).fault, {"= 0.5", "the nearest legal global_batch_size: 16"});
  check_one_fault(solve_batch(batch(2, 3, 8), 2).fault, {"global_batch_size 8 = micro_batch_size 2 x micro_batches 3 x "
                                                         "data_parallel 2 does not hold",
                                                         "the right side is 12", "or micro_batches to 2"});
}

TEST_CASE("every suggested global batch is legal", "[recipe][batch]") {
  for (int64_t global = 1; global < 60; ++global) {
    const BatchNumbers b = solve_batch(batch(4, {}, global), 3);
    if (b.fault.empty()) continue;
    const std::string label = "the nearest legal global_batch_size: ";
    const int64_t suggested = std::stoll(b.fault.substr(b.fault.find(label) + label.size()));
    CHECK(solve_batch(batch(4, {}, suggested), 3).fault == "");
  }
}

TEST_CASE("no batch at all, zero, negative and huge numbers are faults", "[recipe][batch]") {
  check_one_fault(faults_of({"runtime.micro_batch_size=null", "runtime.global_batch_size=null"}),
                  {"runtime.global_batch_size", "no batch is given"});
  check_one_fault(faults_of({"runtime.micro_batch_size=0"}), {"runtime.micro_batch_size: 0 must be"});
  check_one_fault(faults_of({"runtime.global_batch_size=-8"}), {"runtime.global_batch_size: -8 must be"});
  CHECK_THAT(solve_batch(batch(2147483647, 2147483647, {}), 1048576).fault, Catch::Contains("is more than 2147483647"));
}

TEST_CASE("a batch that no data_parallel could repair is refused without a world size", "[recipe][batch]") {
  check_one_fault(faults_of({"runtime.global_batch_size=15"}), {"15 / (2 x 1) = 7.5", "data_parallel is \"fill\""});
  CHECK(faults_of({"runtime.micro_batches=4"}) == "");  // 16 = 2 x 4 x 2 once the world is known
  check_one_fault(faults_of({"runtime.micro_batches=3"}), {"does not hold"});
  check_one_fault(faults_of({"parallelism.data_parallel=3"}), {"x data_parallel 3 has no whole solution"});
  check_one_fault(world_faults(12, {}),
                  {place_after("\"global_batch_size\": ") + ": runtime.global_batch_size", "x data_parallel 3"});
}
