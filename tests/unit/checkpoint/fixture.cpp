// tests/unit/checkpoint/fixture.cpp -- ranks as threads and the states they hold.
#include "fixture.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/hash.h"
#include "base/philox.h"
#include "base/units.h"
#include "checkpoint/completeness.h"

namespace trainctl::testing {
namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(bool on_disk) {
  const std::string name = "trainctl-checkpoint-" + random_hex(12);
  std::error_code code;
  if (!on_disk) fs::create_directory(path_ = "/dev/shm/" + name, code);
  if (on_disk || code) fs::create_directories(path_ = fs::temp_directory_path() / name);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

template <class T>
T ThreadWorld::meet(T& result, const std::function<void(T&, int64_t)>& join) {
  std::unique_lock lock(mutex_);
  join(result, arrived_);
  if (++arrived_ == world_) {
    arrived_ = 0;
    ++generation_;
    changed_.notify_all();
  } else {
    const int64_t mine = generation_;
    await(lock, [&] { return generation_ != mine; });
  }
  return result;
}

void ThreadWorld::await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
  if (!changed_.wait_for(lock, std::chrono::seconds(60), ready))
    throw std::runtime_error("a rank never came to the meeting");
}

// Nothing moves before the receiver waits: the least that a Delivery promises.
class ThreadWorld::Sending final : public Delivery {
 public:
  Sending(ThreadWorld& world, Letters& letters, size_t number) : world_(world), letters_(letters), number_(number) {}
  ~Sending() override {
    try {
      if (!waited_) wait();
    } catch (const std::exception&) {  // whoever needed it would have waited
    }
  }
  bool done() override {
    const std::lock_guard lock(world_.mutex_);
    return letters_.taken > number_;
  }
  void wait() override {
    waited_ = true;
    std::unique_lock lock(world_.mutex_);
    world_.await(lock, [this] { return letters_.taken > number_; });
  }

 private:
  ThreadWorld& world_;
  Letters& letters_;
  size_t number_;
  bool waited_ = false;
};

class ThreadWorld::Receiving final : public Delivery {
 public:
  Receiving(ThreadWorld& world, Letters& letters, size_t number, std::pair<int64_t, int64_t> way, void* to,
            int64_t bytes)
      : world_(world), letters_(letters), number_(number), way_(way), to_(to), bytes_(bytes) {}
  ~Receiving() override {
    try {
      if (!waited_) wait();
    } catch (const std::exception&) {  // whoever needed it would have waited
    }
  }
  bool done() override {
    const std::lock_guard lock(world_.mutex_);
    return letters_.sent.size() > number_;
  }
  void wait() override {
    waited_ = true;
    std::unique_lock lock(world_.mutex_);
    world_.await(lock, [this] { return letters_.sent.size() > number_ && letters_.taken == number_; });
    const auto [from, bytes] = letters_.sent[number_];
    if (bytes != bytes_) throw std::runtime_error("a message of another size came");
    lock.unlock();
    std::memcpy(to_, from, static_cast<size_t>(bytes));
    if (world_.on_delivery) world_.on_delivery(way_.first, way_.second, static_cast<char*>(to_), bytes);
    lock.lock();
    ++letters_.taken;
    world_.changed_.notify_all();
  }

 private:
  ThreadWorld& world_;
  Letters& letters_;
  size_t number_;
  std::pair<int64_t, int64_t> way_;
  void* to_;
  int64_t bytes_;
  bool waited_ = false;
};

NodeRanks ThreadWorld::node_of(int64_t rank) {
  NodeRanks node;
  for (int64_t r = 0; r < world_; ++r)
    if (nodes_[static_cast<size_t>(r)] == nodes_[static_cast<size_t>(rank)]) node.ranks.push_back(r);
  node.send = [this, rank](int64_t to, const void* data, int64_t bytes) -> DeliveryPtr {
    const std::lock_guard lock(mutex_);
    Letters& letters = letters_[{rank, to}];
    letters.sent.emplace_back(data, bytes);
    changed_.notify_all();
    return std::make_unique<Sending>(*this, letters, letters.sent.size() - 1);
  };
  node.receive = [this, rank](int64_t from, void* data, int64_t bytes) -> DeliveryPtr {
    const std::lock_guard lock(mutex_);
    Letters& letters = letters_[{from, rank}];
    return std::make_unique<Receiving>(*this, letters, letters.asked++, std::pair(from, rank), data, bytes);
  };
  return node;
}

Agreement ThreadWorld::agreement(int64_t rank) {
  Agreement a;
  a.rank = rank;
  a.world = world_;
  // A second meeting keeps the next call from overwriting the result before all have read it.
  a.broadcast_from_rank0 = [this, rank](const std::string& text) {
    const std::string result = [&] {
      meet<std::string>(text_, [&](std::string& shared, int64_t) {
        if (rank == 0) shared = text;
      });
      return text_;
    }();
    meet<std::string>(text_result_, [](std::string&, int64_t) {});
    return result;
  };
  a.all_agree = [this](bool yes) {
    meet<bool>(all_, [yes](bool& shared, int64_t arrived) { shared = (arrived == 0 || shared) && yes; });
    const bool result = all_;
    meet<bool>(all_result_, [](bool&, int64_t) {});
    return result;
  };
  a.sum = [this](int64_t value) {
    meet<int64_t>(sum_, [value](int64_t& shared, int64_t arrived) { shared = (arrived == 0 ? 0 : shared) + value; });
    const int64_t result = sum_;
    meet<int64_t>(sum_result_, [](int64_t&, int64_t) {});
    return result;
  };
  a.node = node_of(rank);
  return a;
}

uint32_t element_bits(const std::string& name, const std::string& role, int64_t i, uint32_t salt) {
  return philox(stream_of(name + "/" + role), salt, static_cast<uint64_t>(i))[0];
}

namespace {

// Finite values of every dtype; a bf16 "weight" is the cast of its f32 "master".
void put_element(char* to, const GlobalTensor& g, int64_t i, uint32_t salt) {
  const bool is_weight_of_master = g.dtype == DType::bf16 && g.role == "weight";
  const uint32_t bits = element_bits(g.name, is_weight_of_master ? "master" : g.role, i, salt);
  const float value = static_cast<float>(bits) * 1e-9f - 2.0f;
  const auto put = [to](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (g.dtype) {
    case DType::f32:
      return put(value);
    case DType::bf16:
      return put(bf16(value));
    case DType::f64:
      return put(static_cast<double>(value) / 3);
    case DType::i32:
      return put(static_cast<int32_t>(bits));
    case DType::i64:
      return put(static_cast<int64_t>(uint64_t{bits} * 0x9E3779B97F4A7C15ull));
    case DType::u8:
      return put(static_cast<uint8_t>(bits >> 7));
  }
}

GlobalTensor description(const StateEntry& e) {
  return {e.alias_of.empty() ? e.name : e.alias_of, e.role, e.local.dtype(), e.shape, -1, ""};
}

// Calls visit(pointer, global element index) for each local element.
void for_each_element(const StateEntry& e, const std::function<void(char*, int64_t)>& visit) {
  const Shape strides = contiguous_strides(e.shape);
  for (int64_t i = 0; i < e.box.extent.numel(); ++i) {
    int64_t rest = i, global = 0;
    for (int d = e.shape.rank() - 1; d >= 0; --d) {
      global += (e.box.offset[d] + rest % e.box.extent[d]) * strides[d];
      rest /= e.box.extent[d];
    }
    visit(static_cast<char*>(e.local.data()) + i * size_of(e.local.dtype()), global);
  }
}

}  // namespace

RankState::RankState(const std::vector<GlobalTensor>& globals, int64_t rank, int64_t world)
    : device_(make_cpu_device()), arena_(std::make_unique<Arena>(*device_)) {
  for (const GlobalTensor& g : globals) {
    StateEntry e;
    e.name = g.name;
    e.role = g.role;
    e.shape = g.shape;
    e.alias_of = g.alias_of;
    e.box = {g.shape, g.shape};
    for (int d = 0; d < g.shape.rank(); ++d) e.box.offset[d] = 0;
    if (g.split_dim >= 0) {
      const Span64 part = even_split(g.shape[g.split_dim], world, rank);
      e.box.offset[g.split_dim] = part.begin;
      e.box.extent[g.split_dim] = part.size();
    }
    e.owner = g.split_dim >= 0 || rank == 0;
    e.local = Tensor(*arena_, e.box.extent, g.dtype, MemoryCategory::weights);
    catalog.push_back(std::move(e));
  }
  wipe();
}

void RankState::fill(uint32_t salt) {
  for (StateEntry& e : catalog)
    for_each_element(e, [&](char* at, int64_t i) { put_element(at, description(e), i, salt); });
}

void RankState::wipe() {
  for (StateEntry& e : catalog)
    if (e.local.bytes() > 0) std::memset(e.local.data(), 0xA5, static_cast<size_t>(e.local.bytes()));
}

std::string RankState::difference(uint32_t salt) const {
  std::string first;
  for (const StateEntry& e : catalog)
    for_each_element(e, [&](char* at, int64_t i) {
      char expected[8] = {};
      put_element(expected, description(e), i, salt);
      if (first.empty() && std::memcmp(at, expected, static_cast<size_t>(size_of(e.local.dtype()))) != 0)
        first = fmt::format("{} ({}) element {}", e.name, e.role, i);
    });
  return first;
}

std::vector<GlobalTensor> small_model() {
  std::vector<GlobalTensor> all;
  const auto trained = [&all](const std::string& name, Shape shape, int split) {
    all.push_back({name, "weight", DType::bf16, shape, split, ""});
    all.push_back({name, "master", DType::f32, shape, split, ""});
    all.push_back({name, "exp_avg", DType::f32, shape, split, ""});
    all.push_back({name, "exp_avg_sq", DType::f32, shape, split, ""});
  };
  trained("embedding.weight", {11, 6}, 0);
  trained("layers.0.attention.q.weight", {8, 6}, 0);
  trained("layers.0.attention.o.weight", {6, 9}, 1);
  trained("layers.0.norm.weight", {6}, -1);
  all.push_back({"head.weight", "weight", DType::bf16, {11, 6}, 0, "embedding.weight"});
  all.push_back({"plain.weight", "weight", DType::f32, {3, 5, 7}, 2, ""});
  all.push_back({"plain.weight", "momentum", DType::f64, {3, 5, 7}, 1, ""});
  all.push_back({"nothing", "buffer", DType::f32, {0, 4}, -1, ""});
  all.push_back({"scalar", "buffer", DType::i64, {}, -1, ""});
  all.push_back({"bytes", "buffer", DType::u8, {13}, 0, ""});
  all.push_back({"indices", "buffer", DType::i32, {2, 2, 3, 3}, 3, ""});
  return all;
}

CheckpointerOptions options_for(const fs::path& folder, Agreement agreement) {
  CheckpointerOptions options;
  options.folder = folder;
  options.run_id = "a-run";
  options.topology = R"({"world":1,"tensor_parallel":1})";
  options.provenance = R"({"build":"abc"})";
  for (const VersionPart& part : kVersionParts)
    options.meta.push_back({std::string(part.file), fmt::format("{{\"part\":\"{}\"}}\n", part.name)});
  for (const char* name :
       {"optimizer", "scheduler", "loss_scaler", "rng", "sampler", "packing", "low_precision_scaling"})
    options.derived.push_back({name, "derived", "a test's word"});
  options.free_space_margin_bytes = 1 << 20;
  options.ballast_bytes = 4096;
  options.agreement = std::move(agreement);
  return options;
}

ScalarState scalars_at(int64_t step) {
  ScalarState s;
  s.step = step;
  s.consumed_samples = step * 16;
  s.consumed_tokens = step * 16 * 128;
  s.last_loss = 1.0 / 3 + static_cast<double>(step);
  s.last_grad_norm = 0.1;
  s.seed = -7;
  s.data_fingerprint = "f00d";
  s.data_state = R"({"begins": [1, 0.1, -9007199254740993], "where": "\"here\""})";
  return s;
}

void on_ranks(int64_t world, const std::function<void(int64_t)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < world; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (...) {
        errors[static_cast<size_t>(r)] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
}

const std::vector<std::string>& io_paths() {
  static const std::vector<std::string> all = {"auto", "threads", "buffered"};
  return all;
}

void save_once(const fs::path& folder, int64_t world, int64_t step, uint32_t salt, int64_t keep,
               const std::string& io) {
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    RankState state(small_model(), r, world);
    state.fill(salt);
    CheckpointConfig config;
    config.keep = keep;
    config.io = io;
    config.deadline_s = 30;
    Checkpointer checkpointer =
        build_checkpointer(config, options_for(folder, ranks.agreement(r)), state.arena(), state.catalog);
    checkpointer.save(state.catalog, scalars_at(step), SaveReason::interval);
    for (const SaveOutcome& outcome : checkpointer.wait())
      if (!outcome.ok) throw std::runtime_error("not saved: " + outcome.reason);
  });
}

std::string file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void put_byte(const fs::path& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

void put_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace trainctl::testing
