// lib/checkpoint/checkpoint_config.cpp -- the keys of the "checkpoint" section.
#include "checkpoint/checkpoint_config.h"

namespace trainctl {

void CheckpointConfig::describe(ConfigVisitor& v) {
  v.field("every_steps", every_steps, "steps between checkpoints; 0: only the final state",
          between(0, 1e12).also_called({"save_interval", "save_steps", "interval"}));
  v.field("keep", keep, "newest usable checkpoints to keep; older ones go after a newer one is committed",
          between(1, 1e9).also_called({"save_total_limit", "max_to_keep"}));
  v.field("keep_every_steps", keep_every_steps,
          "training states whose step is a multiple of this are never removed; 0: none",
          between(0, 1e12).also_called({"keep_period", "keep_every_n_steps"}));
  v.field("async", async, "write while training goes on", Rule{}.also_called({"async_save"}));
  v.field(
      "copy", copy,
      "lazy = the state is copied beside the next step's forward and backward, and the optimizer waits for the copy; "
      "blocking = before that step begins. Without async always blocking",
      one_of({"lazy", "blocking"}));
  v.field("at_end", at_end, "save the state after the last step");
  v.field(
      "verify_after_save", verify_after_save,
      "readback: read every file back from the disk after the commit and write VERIFIED; training goes on meanwhile",
      one_of({"none", "readback"}));
  v.field("stop_after_failures", stop_after_failures,
          "saves that fail one after the other before the run ends with their cause; 0: it goes on", between(0, 1e9));
  v.field("deadline_s", deadline_s, "seconds within which all ranks must have written their parts", above(0));
  v.field("write_limit_bytes_per_s", write_limit_bytes_per_s,
          "at most so many bytes per second does each rank write of a checkpoint; 0: as fast as the disk goes",
          between(0, 1e15));
  v.field("io", io,
          "how data reaches the disk: auto = io_uring past the page cache where the system grants them; threads = "
          "without io_uring; buffered = without both",
          one_of({"auto", "threads", "buffered"}));
}

}  // namespace trainctl
