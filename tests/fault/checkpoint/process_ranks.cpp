// tests/fault/checkpoint/process_ranks.cpp -- an all-gather in shared memory.
#include "fault/checkpoint/process_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainctl::testing {
namespace {

constexpr size_t kMaxRanks = 8, kTextBytes = 1 << 18;

struct Words {
  int64_t number = 0, bytes = 0;
  std::array<char, kTextBytes> text{};
};

struct Heard {
  int64_t number = 0;
  std::string text;
};

// Two sets of words in turn: a rank is at most one round ahead of the slowest.
struct Slot {
  std::atomic<int64_t> rounds;
  std::array<Words, 2> words;
};
using Table = std::array<Slot, kMaxRanks>;
static_assert(std::atomic<int64_t>::is_always_lock_free);

class Meeting {
 public:
  Meeting(const std::filesystem::path& path, int64_t rank, int64_t world)
      : rank_(static_cast<size_t>(rank)), world_(static_cast<size_t>(world)) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(Table)) != 0) throw std::runtime_error("no meeting place: " + path.string());
    void* memory = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("the meeting place cannot be mapped");
    table_ = static_cast<Table*>(memory);
  }

  // Everybody's words, by rank.
  std::vector<Heard> exchange(int64_t number, const std::string& text) {
    const size_t turn = static_cast<size_t>(round_ % 2);
    Words& mine = (*table_)[rank_].words[turn];
    if (text.size() > kTextBytes) throw std::runtime_error("the text is too long for the meeting place");
    mine.number = number;
    mine.bytes = static_cast<int64_t>(text.size());
    std::memcpy(mine.text.data(), text.data(), text.size());
    (*table_)[rank_].rounds = ++round_;
    std::vector<Heard> all;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (size_t r = 0; r < world_; ++r) {
      while ((*table_)[r].rounds < round_) {
        if (std::chrono::steady_clock::now() > end) throw std::runtime_error("a rank never came to the meeting");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      const Words& words = (*table_)[r].words[turn];
      all.push_back({words.number, std::string(words.text.data(), static_cast<size_t>(words.bytes))});
    }
    return all;
  }

 private:
  Table* table_ = nullptr;  // lives as long as the process
  size_t rank_, world_;
  int64_t round_ = 0;
};

}  // namespace

Agreement process_agreement(const std::filesystem::path& path, int64_t rank, int64_t world) {
  const auto meeting = std::make_shared<Meeting>(path, rank, world);
  Agreement a;
  a.rank = rank;
  a.world = world;
  a.broadcast_from_rank0 = [meeting](const std::string& text) { return meeting->exchange(0, text)[0].text; };
  a.all_agree = [meeting](bool yes) {
    bool all = true;
    for (const Heard& heard : meeting->exchange(yes, "")) all = all && heard.number != 0;
    return all;
  };
  a.sum = [meeting](int64_t value) {
    int64_t sum = 0;
    for (const Heard& heard : meeting->exchange(value, "")) sum += heard.number;
    return sum;
  };
  return a;
}

}  // namespace trainctl::testing
