// tests/unit/topology/mesh_fit_test.cpp -- degrees against a number of ranks: derived, or refused with the arithmetic.
#include <random>

#include "base/error.h"
#include "support/catch.h"
#include "topology/mesh.h"

using namespace trainctl;

TEST_CASE("data_parallel fills the world that the other degrees leave", "[topology][mesh]") {
  CHECK(fit_world({.tensor = 2, .context = 2, .data = 0}, 4).data == 1);
  CHECK(fit_world({.tensor = 2, .data = 0, .pipeline = 2}, 16).data == 4);
  CHECK(fit_world({.tensor = 2, .expert = 4, .data = 0}, 8) == MeshDegrees{.tensor = 2, .expert = 4, .data = 4});
  CHECK(fit_world({.tensor = 2, .data = 2, .pipeline = 2}, 8).data == 2);
}

TEST_CASE("a layout that is not the world is refused with every degree, the product and legal neighbours",
          "[topology][mesh]") {
  CHECK_THROWS_WITH(fit_world({.tensor = 2, .data = 2, .pipeline = 2}, 4),
                    Catch::Contains("does not fit 4 ranks") && Catch::Contains("tensor_parallel 2") &&
                        Catch::Contains("context_parallel 1") && Catch::Contains("data_parallel 2") &&
                        Catch::Contains("pipeline_parallel 2") && Catch::Contains("= 8") &&
                        Catch::Contains("data_parallel 1 on 4 ranks"));
  CHECK_THROWS_WITH(fit_world({.tensor = 3, .data = 0}, 4),
                    Catch::Contains("= 3") && Catch::Contains("data_parallel being derived") &&
                        Catch::Contains("3 ranks (data_parallel 1)") && Catch::Contains("6 ranks (data_parallel 2)") &&
                        Catch::Contains("tensor_parallel 2 or 4 on 4 ranks"));
  CHECK_THROWS_WITH(fit_world({.tensor = 2, .expert = 4, .data = 0}, 4),
                    Catch::Contains("expert_parallel 4 does not divide data_parallel 2") &&
                        Catch::Contains("8 ranks (data_parallel 4)") &&
                        Catch::Contains("expert_parallel 2 on 4 ranks"));
  CHECK_THROWS_WITH(fit_world({.tensor = 0}, 4), Catch::Contains("tensor_parallel is 0"));
  CHECK_THROWS_WITH(fit_world({}, 0), Catch::Contains("0 ranks"));
  CHECK_THROWS_AS(fit_world({.data = 0}, INT64_MAX), Error);
}

TEST_CASE("whatever fits makes a mesh of exactly the world", "[topology][mesh][property]") {
  std::mt19937 random(5);
  std::uniform_int_distribution<int64_t> degree(1, 4), world(1, 64);
  int fitted = 0;
  for (int round = 0; round < 5000; ++round) {
    const MeshDegrees asked{degree(random), degree(random), degree(random), degree(random) - 1, degree(random)};
    const int64_t ranks = world(random);
    const int64_t replica = asked.tensor * asked.context * asked.pipeline;
    const int64_t data = asked.data == 0 ? ranks / replica : asked.data;
    const bool legal = data > 0 && replica * data == ranks && data % asked.expert == 0;
    if (!legal) {
      CHECK_THROWS_AS(fit_world(asked, ranks), Error);
      continue;
    }
    ++fitted;
    CHECK(Mesh(fit_world(asked, ranks)).world_size() == ranks);
  }
  CHECK(fitted > 50);
}

TEST_CASE("expert_parallel that does not divide data_parallel is refused with the nearest that do",
          "[topology][mesh]") {
  CHECK_THROWS_WITH(Mesh({.expert = 5, .data = 12}), Catch::Contains("expert_parallel is 5") &&
                                                         Catch::Contains("data_parallel 12") &&
                                                         Catch::Contains("nearest legal: 4 or 6"));
  CHECK_THROWS_WITH(Mesh({.expert = 8, .data = 4}), Catch::Contains("nearest legal: 4"));
}
