// lib/comm/threads_hub.cpp -- ranks as threads of one process: one exchange, one Collectives per rank.
#include "comm/backends.h"
#include "comm/threads_transport.h"
#include "comm/transport_collectives.h"

namespace trainctl {
namespace {

class Hub final : public ThreadsHub {
 public:
  explicit Hub(int size) : size_(size), exchange_(make_threads_exchange(size)) {}
  int size() const override { return size_; }
  std::unique_ptr<Collectives> collectives_for(int rank, const CollectivesOptions& options) override {
    return make_transport_collectives([exchange = exchange_, rank] { return make_threads_transport(exchange, rank); },
                                      options);
  }
  void abort(const std::string& reason) override { abort_exchange(*exchange_, reason); }

 private:
  int size_;
  std::shared_ptr<ThreadsExchange> exchange_;
};

}  // namespace

std::shared_ptr<ThreadsHub> make_threads_hub(int size) { return std::make_shared<Hub>(size); }

}  // namespace trainctl
