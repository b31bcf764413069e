// tests/unit/checkpoint/fixture.h -- a world of ranks as threads, catalogs cut from global tensors, scratch folders.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "device/device.h"
#include "tensor/catalog.h"

namespace trainctl::testing {

// In memory (/dev/shm) where there is one: thousands of fsyncs cost nothing there.
class ScratchFolder {
 public:
  explicit ScratchFolder(bool on_disk = false);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Threads that agree through one lock; counts arrivals, so that a rank that misses a call would hang the test.
class ThreadWorld {
 public:
  // `nodes[rank]` says on which node a rank is; empty: all on one.
  explicit ThreadWorld(int64_t world, std::vector<int> nodes = {})
      : nodes_(nodes.empty() ? std::vector<int>(static_cast<size_t>(world), 0) : std::move(nodes)), world_(world) {}
  Agreement agreement(int64_t rank);

  // Called in the receiving rank's thread with what a rank hands to another one; may change it.
  std::function<void(int64_t from, int64_t to, char* data, int64_t bytes)> on_delivery;

 private:
  struct Letters {  // of one rank for another
    std::deque<std::pair<const void*, int64_t>> sent;
    size_t taken = 0, asked = 0;
  };
  class Sending;
  class Receiving;
  template <class T>
  T meet(T& shared, const std::function<void(T&, int64_t arrived)>& join);
  NodeRanks node_of(int64_t rank);
  void await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready);

  std::vector<int> nodes_;
  int64_t world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t arrived_ = 0, generation_ = 0;
  std::string text_, text_result_;
  bool all_ = true, all_result_ = true;
  int64_t sum_ = 0, sum_result_ = 0;
  std::map<std::pair<int64_t, int64_t>, Letters> letters_;
};

// A global tensor's element `i` as bytes that depend on name, role, i and salt.
uint32_t element_bits(const std::string& name, const std::string& role, int64_t i, uint32_t salt);

struct GlobalTensor {
  std::string name, role;
  DType dtype;
  Shape shape;
  int split_dim = -1;  // -1: replicated (rank 0 owns it)
  std::string alias_of;
};

// One rank: device, arena, catalog cut from the global tensors (even split of split_dim), filled with element_bits.
class RankState {
  std::unique_ptr<Device> device_;  // these first: tensors go before the arena they came from
  std::unique_ptr<Arena> arena_;

 public:
  RankState(const std::vector<GlobalTensor>& globals, int64_t rank, int64_t world);
  void fill(uint32_t salt);
  void wipe();
  // "" when every local element is what fill(salt) put there, else the first that is not.
  std::string difference(uint32_t salt) const;
  StateCatalog catalog;
  Arena& arena() { return *arena_; }
};

// A model of odd sizes: sharded by rows, by columns, replicated, empty, scalar, tied.
std::vector<GlobalTensor> small_model();

// With every file of meta/ and every declaration that a training checkpoint needs.
CheckpointerOptions options_for(const std::filesystem::path& folder, Agreement agreement = {});
ScalarState scalars_at(int64_t step);

// Runs `body(rank)` on one thread per rank; rethrows the first exception.
void on_ranks(int64_t world, const std::function<void(int64_t)>& body);

// checkpoint.io, every value: tests that break off saves run on each path to the disk.
const std::vector<std::string>& io_paths();

// Saves one checkpoint of small_model() with `world` ranks; throws when it was not committed.
void save_once(const std::filesystem::path& folder, int64_t world, int64_t step, uint32_t salt, int64_t keep = 3,
               const std::string& io = "auto");

// Allocations of more than 1 MiB by operator new, in this program so far.
int64_t large_allocations();

std::string file_bytes(const std::filesystem::path& path);
void put_byte(const std::filesystem::path& path, size_t at, char byte);  // in place
void put_bytes(const std::filesystem::path& path, const std::string& bytes);
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

}  // namespace trainctl::testing
