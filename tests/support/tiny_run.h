// tests/support/tiny_run.h -- runs of tiny recipes that save and resume with the real checkpointer; ranks are threads.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "support/tiny.h"

namespace trainctl::testing {

// The whole state of a run, whatever its layout: (name, role) -> bytes of the logical tensor, row-major.
using WholeState = std::map<std::pair<std::string, std::string>, std::string>;

// Puts the ranks' catalogs together. Every rank that holds an element must hold the same bits of it: replicas of the
// data group, heads that several tensor ranks hold, tied copies on both ends of a pipeline.
class StateGatherer {
 public:
  void add(const StateCatalog& catalog);  // from any rank's thread; all of them before whole()
  // Throws std::runtime_error naming tensor and element: held by nobody, owned by nobody or by two ranks, or different
  // on two ranks.
  WholeState whole() const;

 private:
  struct Gathered {
    std::string bytes;
    std::vector<uint8_t> holders, owners;  // of every element
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Gathered> tensors_;
  std::string disagreement_;
};

// What a run does: it starts anew or resumes, trains up to last_step, and looks at and saves states on the way.
struct RunPlan {
  std::filesystem::path folder;       // of its checkpoints
  std::string resume{};               // a checkpoint folder; empty: the initial weights of runtime.seed
  int64_t last_step = 0;              // 0 with `resume`: no step is made
  std::vector<int64_t> look_after{};  // steps after which the whole state is gathered, the resumed one included
  std::vector<int64_t> save_after{};  // steps after which it is saved; gathering comes before
  SaveReason reason = SaveReason::final;
  // Of a tensor "ballast" that rank 0 saves and loads besides, before all others: a lazy copy of those comes that much
  // later.
  int64_t ballast_bytes = 0;
};

// What resuming moved, in bytes of whole blocks; the ranks are those of one node.
struct NodeLoad {
  int64_t read = 0, received = 0;  // by all ranks: from the disk, from each other
  int64_t needed = 0;              // of the blocks that a rank needs, summed over the ranks
  int64_t needed_once = 0;         // of the blocks that any rank needs
  int64_t stored = 0;              // of all blocks of the checkpoint
};

struct RunRecord {
  std::map<int64_t, double> losses, norms;  // by step
  std::map<int64_t, WholeState> states;     // by step
  std::vector<SaveOutcome> saves;           // rank 0's
  NodeLoad load;
  std::filesystem::path saved(int64_t step) const;  // the committed checkpoint of that step; throws when there is none
};

// Like trace(), of a recipe resolved for its world. Before it resumes, a rank holds zeros.
RunRecord run_tiny(const Recipe& recipe, const RunPlan& plan);

// What a checkpoint says of every chunk: tensor, box, place, and the digest of the bytes that lie there. Equal texts:
// the same content in the same files. One line per chunk.
std::string content_of(const std::filesystem::path& checkpoint);

}  // namespace trainctl::testing
