// tests/unit/checkpoint/shared_blocks_faults_test.cpp -- shared blocks that are damaged, spoilt on their way or cannot
// be read are refused by all ranks.
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "faulty_queue.h"
#include "shared_blocks_fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::string data_file(const fs::path& folder, int64_t step, const char* name) {
  return (folder / folder_name_of(step) / "data" / name).string();
}

void flip(const std::string& file, int64_t at) {
  put_byte(file, static_cast<size_t>(at), static_cast<char>(file_bytes(file)[static_cast<size_t>(at)] ^ 0x20));
}

}  // namespace

TEST_CASE("a damaged block, whoever reads it for whom, takes all ranks to the older checkpoint and is marked once",
          "[checkpoint]") {
  for (const int cut : kCuts)
    for (const int64_t block : {0, 4}) {
      CAPTURE(cut, block);
      ScratchFolder folder;
      save(folder.path(), large(kReplica), 1, 1);
      save(folder.path(), large(kReplica), 1, 2);
      flip(data_file(folder.path(), 2, "optim-r00000.safetensors"), block * kBlockBytes + 100'000);
      for (int again = 0; again < 2; ++again) {
        ThreadWorld ranks(3);
        const std::vector<Loaded> all = load(folder.path(), large(cut), ranks, 3);
        int found = 0, came_wrong = 0;
        for (const Loaded& loaded : all) {
          CHECK(loaded.result.step == 1);
          CHECK(loaded.wrong == 0);
          REQUIRE(loaded.result.rejected.size() == 1);
          const std::string& why = loaded.result.rejected[0];
          CAPTURE(why);
          CHECK(why.find("step-00000002") != std::string::npos);
          found += why.find("the file is damaged") != std::string::npos;
          came_wrong += why.find("came from rank") != std::string::npos;
        }
        CHECK(found == (again == 0 ? 1 : 0));
        if (again == 0 && cut != kRows) CHECK(came_wrong == 2);
      }
      const CheckpointInfo info = inspect_folder(folder.path() / "step-00000002");
      CHECK(info.state == CheckpointState::unusable);
      CHECK(info.reason.find(fmt::format("data/optim-r00000.safetensors: block {} is damaged", block)) !=
            std::string::npos);
    }
}

TEST_CASE("two ranks that find damage, and damage in every block, end as one does", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1, 1);
  save(folder.path(), large(kReplica), 1, 2);
  const std::string model = data_file(folder.path(), 2, "model-r00000.safetensors");
  for (const int64_t block : {0, 1, 2, 3, 4}) flip(model, block * kBlockBytes + 100'000);
  ThreadWorld ranks(4);
  for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 4)) {
    CHECK(loaded.result.step == 1);
    CHECK(loaded.wrong == 0);
  }
  CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::unusable);
}

TEST_CASE("a block that is spoilt between two ranks is refused by all, and no file is blamed", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1, 1);
  save(folder.path(), large(kReplica), 1, 2);
  // The first messages of a load say what a rank needs; any of them may be spoilt as well.
  for (const int spoilt : {0, 1, 2, 3}) {
    CAPTURE(spoilt);
    ThreadWorld ranks(3);
    std::atomic<int> number = 0;
    ranks.on_delivery = [&](int64_t from, int64_t to, char* data, int64_t bytes) {
      if (from == 1 && to == 2 && number++ == spoilt) data[bytes / 2] = static_cast<char>(data[bytes / 2] ^ 1);
    };
    int told = 0;
    for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 3)) {
      CHECK(loaded.result.step == 1);
      CHECK(loaded.wrong == 0);
      REQUIRE(loaded.result.rejected.size() == 1);
      const std::string& why = loaded.result.rejected[0];
      CAPTURE(why);
      told += why.find(spoilt == 0 ? "which blocks rank 1 needs" : "came from rank 1") != std::string::npos;
      CHECK(why.find("damaged") == std::string::npos);
    }
    CHECK(told == 1);
    CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);
    ranks.on_delivery = {};
    for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 3)) CHECK(loaded.result.step == 2);
  }
}

TEST_CASE("a read error on one rank takes all to the older checkpoint and marks nothing", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kRows), 2, 1);
  save(folder.path(), large(kRows), 2, 2);
  for (const int cut : kCuts)
    for (const int64_t failing : {0, 2}) {
      CAPTURE(cut, failing);
      ThreadWorld ranks(3);
      std::atomic<int> reads = 0;
      int told = 0;
      const auto all = load(folder.path(), large(cut), ranks, 3, [&](int64_t rank, CheckpointerOptions& options) {
        if (rank == failing)
          options.wrap_io = faulty([&reads](const IoRequest&) { return ++reads == 2 ? Fate{.result = -EIO} : Fate{}; });
      });
      for (const Loaded& loaded : all) {
        CHECK(loaded.result.step == 1);
        CHECK(loaded.wrong == 0);
        REQUIRE(loaded.result.rejected.size() == 1);
        told += loaded.result.rejected[0].find(std::strerror(EIO)) != std::string::npos;
      }
      CHECK(told == 1);
      CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);
    }
}

TEST_CASE("a request that one rank cannot make is refused by all before anything is read", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1);
  ThreadWorld ranks(3);
  std::vector<std::string> what(3);
  std::vector<int64_t> read(3, -1);
  on_ranks(3, [&](int64_t r) {
    const Agreement agreement = ranks.agreement(r);
    CheckpointReader reader(folder.path() / "step-00000001");
    const TensorRecord* w = reader.find("w", "weight");
    std::vector<double> to(1800);
    const Box row{{r == 1 ? 1400 : 7, 0}, {1, 1800}};
    try {
      reader.read_all({{w, row, DType::f64, to.data()}}, agreement);
    } catch (const Error& e) {
      what[static_cast<size_t>(r)] = e.what();
    }
    read[static_cast<size_t>(r)] = reader.cost(agreement).rank.read;
  });
  CHECK(what[1].find("a box at [1400, 0]") != std::string::npos);
  for (const size_t r : {0, 2}) CHECK(what[r].find("another rank cannot say") != std::string::npos);
  CHECK(read == std::vector<int64_t>{0, 0, 0});
}

}  // namespace trainctl::testing
