// lib/comm/mpi_transport.cpp -- non-blocking messages of Open MPI, errors as exceptions, and the abort of the whole
// job.
#include "comm/mpi_transport.h"

#define OMPI_SKIP_MPICXX 1  // the C interface alone
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "comm/backends.h"
#include "comm/transport_collectives.h"

namespace trainctl {
namespace {

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(ErrorKind::comm, fmt::format("{} failed: {}", call, text));
}

class MpiTransfer final : public Transfer {
 public:
  explicit MpiTransfer(bool receives) : receives_(receives) {}
  ~MpiTransfer() override {
    if (request_ == MPI_REQUEST_NULL) return;
    cancel();
    MPI_Request_free(&request_);
  }
  MPI_Request* request() { return &request_; }
  bool test() override {
    if (request_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&request_, &done, &status), receives_ ? "receiving a message" : "sending a message");
    if (!done) return false;
    if (receives_) {
      int bytes = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      received_ = bytes;
    }
    return true;
  }
  int64_t received() const override { return received_; }
  // Of receives, those that no message has met yet; see can_cancel().
  void cancel() override {
    if (receives_ && request_ != MPI_REQUEST_NULL) MPI_Cancel(&request_);
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool receives_;
  int64_t received_ = 0;
};

class MpiTransport final : public Transport {
 public:
  void open() override {
    int running = 0, ended = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (ended) fail(ErrorKind::environment, "MPI was ended already in this process and cannot start again");
    if (!running) {
      // Serialized: this thread alone talks to MPI, except for abort_mpi().
      int provided = 0;
      if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        fail(ErrorKind::environment, "MPI_Init_thread failed; is this process started by mpirun of the same MPI?");
      owner_ = true;
      if (provided < MPI_THREAD_SERIALIZED)
        fail(ErrorKind::environment,
             fmt::format("this MPI gives thread level {}, at least {} (MPI_THREAD_SERIALIZED) is needed", provided,
                         MPI_THREAD_SERIALIZED));
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    int found = 0;
    void* value = nullptr;
    check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
    max_tag_ = found ? *static_cast<int*>(value) : 32767;  // what the standard promises at least
  }
  void close() override {
    check(MPI_Comm_free(&comm_), "MPI_Comm_free");
    if (owner_) check(MPI_Finalize(), "MPI_Finalize");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int64_t max_message_bytes() const override { return kMaxBytes; }
  int max_tag() const override { return max_tag_; }

  TransferPtr isend(int peer, int tag, const void* data, int64_t bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(false);
    check(MPI_Isend(data, count(bytes), MPI_BYTE, peer, tag, comm_, transfer->request()), "MPI_Isend");
    return transfer;
  }
  TransferPtr irecv(int peer, int tag, void* data, int64_t capacity_bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(true);
    check(MPI_Irecv(data, count(capacity_bytes), MPI_BYTE, peer, tag, comm_, transfer->request()), "MPI_Irecv");
    return transfer;
  }
  bool can_cancel() const override { return false; }
  bool set_wake(std::function<void()>) override { return false; }  // Open MPI makes no progress without calls

 private:
  static constexpr int64_t kMaxBytes = int64_t{1} << 30;
  // MPI counts are int; callers cut messages well below that.
  static int count(int64_t bytes) {
    ensure(bytes >= 0 && bytes <= kMaxBytes, "a message is larger than the transport's limit");
    return static_cast<int>(bytes);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, max_tag_ = 0;
  bool owner_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport() { return std::make_unique<MpiTransport>(); }

std::unique_ptr<Collectives> make_mpi_world_collectives(const CollectivesOptions& options) {
  return make_transport_collectives([] { return make_mpi_transport(); }, options);
}

void abort_mpi(int code) {
  int running = 0, ended = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  if (running && !ended) MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace trainctl
