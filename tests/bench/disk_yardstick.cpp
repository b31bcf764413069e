// tests/bench/disk_yardstick.cpp -- what the disk gives: fio, or a plain loop of direct transfers.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "checkpoint/io_buffer.h"
#include "checkpoint/transfers.h"
#include "checkpoint_bench.h"
#include "support/subprocess.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kPiece = 8 << 20;
constexpr int kDepth = 8;

bool fio_is_there() {
  try {
    return testing::run({"fio", "--version"}).exit_code == 0;
  } catch (const std::exception&) {
    return false;
  }
}

// One job of the loop; returns its seconds.
double transfer(const fs::path& path, bool writing, int64_t bytes) {
  IoBuffer memory(kPiece * kDepth);
  for (int64_t i = 0; i < kPiece * kDepth; ++i) memory.data()[i] = static_cast<char>((i * 2654435761) >> 7);
  FileHandle file = writing ? FileHandle::create_exclusive(path) : FileHandle::open_for_reading(path);
  IoOptions options;
  options.depth = kDepth;
  Transfers transfers(options);
  const double start = now_s();
  if (writing) file.reserve(bytes);
  transfers.prepare(file);
  int64_t slot = 0;
  for (int64_t at = 0; at < bytes; at += kPiece) {
    if (transfers.full()) slot = static_cast<int64_t>(transfers.finish_one());
    const int64_t count = std::min(kPiece, bytes - at);
    transfers.start({.file = &file,
                     .write = writing,
                     .data = memory.data() + slot * kPiece,
                     .offset = at,
                     .bytes = count,
                     .need = count,
                     .tag = static_cast<uint64_t>(slot)});
    ++slot;
  }
  while (!transfers.idle()) transfers.finish_one();
  if (writing) file.sync_data();
  return now_s() - start;
}

}  // namespace

DiskYardstick::DiskYardstick(fs::path folder) : folder_(std::move(folder)), has_fio_(fio_is_there()) {
  name_ = has_fio_ ? "fio, direct, 8 MiB, depth 8" : "an own loop, direct, 8 MiB, depth 8 (fio is not installed)";
}

double DiskYardstick::fio(const std::string& mode, int jobs, int64_t bytes_per_job, bool keep) const {
  const testing::SubprocessResult result =
      testing::run({"fio", "--name=yardstick", "--directory=" + folder_.string(), "--rw=" + mode, "--bs=8M",
                    "--iodepth=8", "--ioengine=io_uring", "--direct=1", "--end_fsync=1",
                    fmt::format("--size={}", bytes_per_job), fmt::format("--numjobs={}", jobs), "--group_reporting",
                    fmt::format("--unlink={}", keep ? 0 : 1), "--output-format=json"},
                   {.timeout_s = 600});
  if (result.exit_code != 0) fail(ErrorKind::environment, "fio failed: " + result.err + result.out);
  const nlohmann::json job = nlohmann::json::parse(result.out).at("jobs").at(0).at(mode);
  if (job.at("io_bytes").get<int64_t>() < bytes_per_job / kPiece * kPiece * jobs)
    fail(ErrorKind::internal, "fio moved fewer bytes than it was asked for");
  return job.at("bw_bytes").get<double>();
}

double DiskYardstick::loop(bool writing, int jobs, int64_t bytes_per_job) const {
  std::vector<double> seconds(static_cast<size_t>(jobs));
  std::vector<std::thread> threads;
  for (int j = 0; j < jobs; ++j)
    threads.emplace_back([&, j] {
      seconds[static_cast<size_t>(j)] = transfer(folder_ / fmt::format("loop-{}", j), writing, bytes_per_job);
    });
  for (std::thread& t : threads) t.join();
  return static_cast<double>(bytes_per_job * jobs) / *std::max_element(seconds.begin(), seconds.end());
}

double DiskYardstick::write(int jobs, int64_t bytes_per_job) const {
  if (has_fio_) return fio("write", jobs, bytes_per_job, false);
  const double rate = loop(true, jobs, bytes_per_job);
  for (int j = 0; j < jobs; ++j) fs::remove(folder_ / fmt::format("loop-{}", j));
  return rate;
}

double DiskYardstick::read(int jobs, int64_t bytes_per_job) const {
  if (has_fio_) {
    fio("write", jobs, bytes_per_job, true);
    return fio("read", jobs, bytes_per_job, false);
  }
  loop(true, jobs, bytes_per_job);
  const double rate = loop(false, jobs, bytes_per_job);
  for (int j = 0; j < jobs; ++j) fs::remove(folder_ / fmt::format("loop-{}", j));
  return rate;
}

}  // namespace trainctl::bench
