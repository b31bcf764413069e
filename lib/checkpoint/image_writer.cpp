// lib/checkpoint/image_writer.cpp -- digest, rate limit, write: one pass over the staging image.
#include "checkpoint/image_writer.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/non_finite.h"
#include "checkpoint/token_bucket.h"
#include "checkpoint/transfers.h"

namespace trainctl {
namespace {

constexpr int64_t kCachedBytes = 256 << 10;  // what two passes share: the second finds it in a core's own cache

// Of the tensors that meet the file's bytes [begin, end).
int64_t non_finite_in(const PlannedFile& file, const char* image, int64_t begin, int64_t end) {
  int64_t count = 0;
  const int64_t data = file.record.header_bytes;
  const auto first = std::partition_point(file.header.begin(), file.header.end(),
                                          [&](const SafetensorsTensor& t) { return data + t.end <= begin; });
  for (auto t = first; t != file.header.end() && data + t->begin < end; ++t) {
    const int64_t from = std::max(begin, data + t->begin), to = std::min(end, data + t->end);
    if (from < to) count += count_non_finite(image + from, to - from, t->dtype);
  }
  return count;
}

class ImageWriter {
 public:
  ImageWriter(const SaveJob& job, StagingArea& staging)
      : job_(job),
        staging_(staging),
        bucket_(job.write_limit_bytes_per_s, kWriteBytes, TokenBucket::Clock::now()),
        transfers_(job.io) {
    bucket_.take(kWriteBytes);  // a save starts without savings; later ones make up for oversleeping
  }

  WrittenFiles run() {
    handles_.reserve(staging_.plan().files.size());  // transfers point at them
    for (const PlannedFile& file : staging_.plan().files) create(file);
    for (size_t i = 0; i < handles_.size(); ++i) write(i);
    while (!transfers_.idle()) transfers_.finish_one();
    for (size_t i = 0; i < handles_.size(); ++i) seal(i);
    written_.io_path = transfers_.path_in_use();
    return std::move(written_);
  }

 private:
  void create(const PlannedFile& planned) {
    handles_.push_back(FileHandle::create_exclusive(job_.staging_folder() / planned.record.path));
    handles_.back().reserve(round_up(planned.record.bytes, kDirectAlignment));
    transfers_.prepare(handles_.back());
    if (handles_.size() == 1) job_.reached(SavePoint::created);
  }

  void write(size_t index) {
    const PlannedFile& planned = staging_.plan().files[index];
    FileRecord record = planned.record;
    char* image = staging_.image() + planned.image_offset;
    std::vector<SafetensorsTensor> tensors = planned.header;
    const std::string header = encode_safetensors_header(
        tensors, shard_metadata(job_.run_id, job_.attempt, job_.step, job_.rank), record.header_bytes);
    ensure(static_cast<int64_t>(header.size()) == record.header_bytes, "a shard header outgrew its reserved space");
    std::memcpy(image, header.data(), header.size());

    const int64_t padded = round_up(record.bytes, kDirectAlignment);
    for (int64_t at = 0; at < record.bytes; at += kWriteBytes) {
      const int64_t end = std::min(at + kWriteBytes, record.bytes);
      for (int64_t block = at; block < end; block += kBlockBytes) {
        const int64_t stop = std::min(block + kBlockBytes, end);
        for (int64_t piece = block; piece < stop; piece += kCachedBytes) {
          const int64_t bytes = std::min(kCachedBytes, stop - piece);
          digest_.update(image + piece, static_cast<size_t>(bytes));
          written_.non_finite += non_finite_in(planned, image, piece, piece + bytes);
        }
        record.block_xxh128.push_back(digest_.hex());
      }
      const int64_t stop = std::min(at + kWriteBytes, padded);
      if (index == 0 && at == 0) {  // two writes, so that there is a moment with part of a file on disk
        const int64_t half = round_up(stop / 2, kDirectAlignment);
        put(index, image, 0, half);
        while (!transfers_.idle()) transfers_.finish_one();
        job_.reached(SavePoint::half_written);
        put(index, image, half, stop);
      } else {
        put(index, image, at, stop);
      }
    }
    record.file_root = file_root_of(record.block_xxh128);
    written_.files.push_back(std::move(record));
  }

  void put(size_t index, char* image, int64_t begin, int64_t end) {
    if (begin == end) return;
    await_tokens();
    bucket_.take(end - begin);
    while (transfers_.full()) transfers_.finish_one();
    transfers_.start({.file = &handles_[index],
                      .write = true,
                      .data = image + begin,
                      .offset = begin,
                      .bytes = end - begin,
                      .need = end - begin});
  }

  void await_tokens() {
    for (;;) {
      if (job_.cancelled && *job_.cancelled) fail(ErrorKind::checkpoint, "the run is ending");
      const TokenBucket::Clock::duration time = bucket_.wait(TokenBucket::Clock::now());
      if (time == TokenBucket::Clock::duration::zero()) return;
      std::this_thread::sleep_for(std::min<TokenBucket::Clock::duration>(time, std::chrono::milliseconds(50)));
    }
  }

  void seal(size_t index) {
    FileHandle& file = handles_[index];
    const int64_t bytes = written_.files[index].bytes;
    if (bytes % kDirectAlignment != 0) file.truncate(bytes);
    file.sync_data();
    if (file.size() != bytes)
      fail(ErrorKind::environment,
           fmt::format("{} has {} bytes after writing {}", file.path().string(), file.size(), bytes));
    file.close();
  }

  const SaveJob& job_;
  StagingArea& staging_;
  TokenBucket bucket_;
  std::vector<FileHandle> handles_;
  Transfers transfers_;  // after the handles: it goes first and waits for what is in flight
  Xxh128 digest_;
  WrittenFiles written_;
};

}  // namespace

WrittenFiles write_images(const SaveJob& job, StagingArea& staging) {
  try {
    return ImageWriter(job, staging).run();
  } catch (const Error& e) {  // the queue does not know whose bytes it moves
    const std::string data = (job.staging_folder() / "data").string(), what = e.what();
    if (what.find(data) != std::string::npos) throw;
    fail(e.kind(), fmt::format("cannot write {}: {}", data, what));
  }
}

}  // namespace trainctl
