// tests/fault/checkpoint/large_damage_test.cpp -- random bytes of a checkpoint of many blocks changed: each is noticed
// before anything of its block is used.
#include <fstream>

#include "base/error.h"
#include "base/philox.h"
#include "checkpoint/checkpoint_reader.h"
#include "fault/checkpoint/campaign.h"
#include "support/catch.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

// 32 MiB on two ranks: four files of more than one block.
std::vector<GlobalTensor> wide_model() {
  return {{"w", "weight", DType::f32, {2048, 2048}, 0, ""}, {"w", "exp_avg", DType::f32, {2048, 2048}, 1, ""}};
}

void save(const fs::path& folder) {
  ThreadWorld ranks(2);
  on_ranks(2, [&](int64_t r) {
    RankState state(wide_model(), r, 2);
    state.fill(1);
    Checkpointer c = build_checkpointer({}, options_for(folder, ranks.agreement(r)), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(1), SaveReason::interval);
    if (!c.wait().front().ok) throw std::runtime_error("not saved");
  });
}

// Reads one element whose block holds the byte `at` of `file`: of the tensor there, or in a header of the first one
// behind it. Throws what the reader throws.
void read_near(const fs::path& folder, const std::string& file, int64_t at) {
  CheckpointReader reader(folder);
  const int64_t block = at / kBlockBytes;
  for (const TensorRecord& t : reader.manifest().tensors)
    for (const ChunkRecord& c : t.chunks) {
      const int64_t begin = std::max(c.byte_offset, block * kBlockBytes), end = c.byte_offset + c.byte_length;
      if (c.file != file || begin >= end || begin / kBlockBytes != block) continue;
      const int64_t inside = at >= begin && at < end ? at - c.byte_offset : begin - c.byte_offset;
      const int64_t element = inside / size_of(t.dtype);
      Box one = c.box;
      int64_t rest = element;
      for (int d = t.shape.rank() - 1; d >= 0; --d) {
        one.offset[d] = c.box.offset[d] + rest % c.box.extent[d];
        one.extent[d] = 1;
        rest /= c.box.extent[d];
      }
      float value = 0;
      return reader.read(t, one, t.dtype, &value);
    }
  throw std::runtime_error("no tensor lies in this block");
}

}  // namespace

TEST_CASE("a changed byte at a random place of a large checkpoint is noticed before its block is used",
          "[fault][checkpoint]") {
  ScratchFolder folder;
  save(folder.path());
  const fs::path checkpoint = folder.path() / folder_name_of(1);
  const std::vector<fs::path> files = files_below(checkpoint);
  std::vector<int64_t> ends;  // of the files, one after the other
  int64_t total = 0;
  for (const fs::path& f : files) ends.push_back(total += static_cast<int64_t>(fs::file_size(f)));
  const uint64_t trials = is_campaign() ? 100000 : 300;
  int64_t found = 0;
  for (uint64_t trial = 0; trial < trials; ++trial) {
    const auto random = philox(99, 0, trial);
    size_t f = random[3] % files.size();  // one in eight in any file, however small; else by bytes
    int64_t at = static_cast<int64_t>((uint64_t{random[0]} << 32 | random[1]) % static_cast<uint64_t>(total));
    if (random[2] % 8 != 0) {
      for (f = 0; at >= ends[f]; ++f) {
      }
      at -= f == 0 ? 0 : ends[f - 1];
    } else {
      at %= static_cast<int64_t>(fs::file_size(files[f]));
    }
    std::fstream file(files[f], std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(at);
    file.seekg(place);
    const auto good = static_cast<char>(file.get());
    const auto flip = static_cast<char>(random[2] % 2 == 0 ? 1u << (random[2] >> 8) % 8 : 1 + (random[2] >> 8) % 255);
    file.seekp(place).put(static_cast<char>(good ^ flip)).flush();
    bool refused = false;
    try {
      read_near(checkpoint, files[f].lexically_relative(checkpoint).string(), at);
    } catch (const Error& e) {
      refused = e.kind() == ErrorKind::checkpoint;
    }
    file.seekp(place).put(good).flush();
    found += refused;
    CAPTURE(trial, files[f].string(), at);
    if (!refused) CHECK(refused);
  }
  read_near(checkpoint, "data/model-r00000.safetensors", 0);  // and it is whole again
  report_result("a changed byte at a random place of a large checkpoint", static_cast<int64_t>(trials), found);
  CHECK(found == static_cast<int64_t>(trials));
}

}  // namespace trainctl::testing
