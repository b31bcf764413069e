// tests/unit/data/allocation_test.cpp -- filling batches allocates nothing once the epochs in use have been entered.
#include "data/sampler.h"
#include "data_test_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;

TEST_CASE("filling batches allocates nothing in the steady state, across epochs and sources", "[data]") {
  const ScratchFolder folder;
  write_counting(folder / "a", std::vector<int64_t>(300, 13));
  write_counting(folder / "b", std::vector<int64_t>(50, 29));
  DataConfig config = config_of({(folder / "a").string(), (folder / "b").string()}, 64);
  config.validation_fraction = 0.1;
  config.document_mask = config.reset_positions = true;
  const Sampler sampler(config, 1, 10000);
  std::vector<int32_t> rows[4];
  for (auto& row : rows) row.resize(8 * 64);
  std::vector<SampleId> ids(8);
  const BatchView view{rows[0].data(), rows[1].data(), rows[2].data(), rows[3].data(), ids.data()};
  const int64_t two_epochs = 4 * sampler.samples_per_epoch(Split::train);  // of the slower source too
  sampler.fill(Split::train, 0, 8, view);
  const int64_t before_entering = allocations_so_far();
  for (int64_t g = 8; g < two_epochs; g += 8) sampler.fill(Split::train, g, 8, view);
  for (int64_t g = 0; g < 64; g += 8) sampler.fill(Split::validation, g, 8, view);
  const int64_t before = allocations_so_far();
  CHECK(before > before_entering);
  for (int64_t g = two_epochs; g < 3 * two_epochs; g += 8) {
    sampler.fill(Split::train, g, 8, view);
    sampler.fill(Split::validation, g, 8, view);
  }
  CHECK(allocations_so_far() == before);
}
