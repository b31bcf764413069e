// tests/cli/forget_moments.cpp -- replaces a checkpoint by one that is whole in every way but has zeros for the
// optimizer's moments: a worker that loses its optimizer state, for tests. Usage: trainctl_forget_moments STEP_FOLDER
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "checkpoint/boxes.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/restore.h"
#include "checkpoint/verify.h"

namespace {

using namespace trainctl;
namespace fs = std::filesystem;

void forget(const fs::path& folder) {
  const std::unique_ptr<Device> device = make_cpu_device();
  Arena arena(*device);
  const Manifest m = read_manifest(folder);
  StateCatalog catalog;
  for (const TensorRecord& t : m.tensors) {
    StateEntry e;
    e.name = t.name;
    e.role = t.role;
    e.shape = t.shape;
    e.box = whole(t.shape);
    e.local = Tensor(arena, t.shape, t.dtype, MemoryCategory::weights);
    e.alias_of = t.alias_of;
    catalog.push_back(std::move(e));
  }
  CheckpointReader reader(folder);
  restore_catalog(reader, catalog, *device);
  for (const StateEntry& e : catalog)
    if (e.role == "exp_avg" || e.role == "exp_avg_sq" || e.role == "momentum")
      std::memset(e.local.data(), 0, static_cast<size_t>(e.local.bytes()));

  CheckpointerOptions options;
  options.folder = folder.parent_path();
  options.run_id = m.run_id;
  options.parent = m.parent;
  options.topology = m.topology;
  options.provenance = m.provenance;
  for (const MetaRecord& f : m.meta) options.meta.push_back({f.path, read_file(folder / f.path)});
  for (const StateClass& c : m.completeness)
    if (c.state == "derived") options.derived.push_back(c);
  CheckpointConfig config;
  config.keep = 1000;
  Checkpointer checkpointer = build_checkpointer(config, std::move(options), arena, catalog);
  checkpointer.save(catalog, m.scalars, SaveReason::final);
  for (const SaveOutcome& o : checkpointer.wait())
    if (!o.ok) fail(ErrorKind::checkpoint, o.reason);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) fail(ErrorKind::usage, "one argument is needed: the folder of a checkpoint");
    forget(fs::absolute(argv[1]));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "trainctl_forget_moments: %s\n", e.what());
    return 1;
  }
}
