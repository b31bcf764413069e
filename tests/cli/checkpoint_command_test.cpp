// tests/cli/checkpoint_command_test.cpp -- `trainctl checkpoint` on folders as runs, crashes and copies leave them:
// tables, JSON, exit codes.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/atomic_file.h"
#include "checkpoint/adopt.h"
#include "checkpoint/markers.h"
#include "checkpoint/posix_io.h"
#include "support/catch.h"
#include "support/subprocess.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

SubprocessResult checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {program("trainctl"), "checkpoint"});
  return run(arguments);
}

json checkpoint_json(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const SubprocessResult r = checkpoint(std::move(arguments));
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  return json::parse(r.out);
}

size_t widest(const std::string& text) {
  size_t most = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) most = std::max(most, line.size());
  return most;
}

// A run directory with steps 1 to `last`, and the save after them as a kill of rank 0 at S7 leaves it.
struct Run {
  explicit Run(int64_t last) {
    for (int64_t step = 1; step <= last; ++step) save_once(root(), 2, step, static_cast<uint32_t>(step), 99);
  }
  fs::path root() const { return folder.path() / "checkpoints"; }
  std::string at(int64_t step) const { return (root() / folder_name_of(step)).string(); }

  fs::path interrupt(int64_t step) const {
    ScratchFolder copy;
    ThreadWorld ranks(2);
    on_ranks(2, [&](int64_t r) {
      RankState state(small_model(), r, 2);
      state.fill(static_cast<uint32_t>(step));
      CheckpointerOptions options = options_for(root(), ranks.agreement(r));
      if (r == 0)
        options.on_point = [&](SavePoint point) {
          if (point != SavePoint::gathered) return;
          fs::copy(root() / ".staging", copy.path() / ".staging", fs::copy_options::recursive);
          fail(ErrorKind::environment, "killed");
        };
      Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
      c.save(state.catalog, scalars_at(step), SaveReason::interval);
      c.wait();
    });
    fs::remove_all(root() / ".staging");
    fs::copy(copy.path() / ".staging", root() / ".staging", fs::copy_options::recursive);
    const fs::path attempt = root() / ".staging" / names_in(root() / ".staging").at(0);
    Attempt record = attempt_from_text(file_bytes(attempt / kAttemptName), "attempt");
    record.owner.start_ticks += 1;  // its process has ended
    put_bytes(attempt / kAttemptName, to_text(record));
    return attempt;
  }
  ScratchFolder folder;
};

}  // namespace

TEST_CASE("list shows every state with its marks in a table of at most 100 columns, and the same in JSON",
          "[cli][checkpoint]") {
  Run r(5);
  fs::remove(r.at(1) + "/COMMITTED");
  REQUIRE(checkpoint({"mark", "unusable", r.at(2), "--reason", std::string(40, 'x') + " " + std::string(80, 'y')})
              .exit_code == 0);
  fs::remove(r.at(3) + "/data/model-r00000.safetensors");
  REQUIRE(checkpoint({"mark", "pin", r.folder.path().string(), "--step", "4", "--reason", "figure 2"}).exit_code == 0);
  REQUIRE(checkpoint({"verify", "--full", r.at(5)}).exit_code == 0);
  const SubprocessResult table = checkpoint({"list", r.folder.path().string()});
  INFO(table.out << table.err);
  REQUIRE(table.exit_code == 0);
  CHECK(table.err == "");
  CHECK(widest(table.out) <= 100);
  for (const char* word : {"verified", "pinned", "figure 2", "incomplete", "unusable", "damaged", "is missing"})
    CHECK_THAT(table.out, Contains(word));
  const json value = checkpoint_json({"list", r.root().string()});
  std::vector<std::string> states;
  for (const json& c : value["checkpoints"]) states.push_back(c["state"]);
  CHECK(states == std::vector<std::string>{"usable", "usable", "damaged", "unusable", "incomplete"});
  CHECK(value["checkpoints"][0]["verified"] == true);
  CHECK(value["checkpoints"][1]["pin_reason"] == "figure 2");
  CHECK(checkpoint_json({"list", "--closely", r.root().string()})["checkpoints"].size() == 5);
}

TEST_CASE("inspect says everything of the manifest that matters, also of a copy outside a run", "[cli][checkpoint]") {
  Run r(1);
  ScratchFolder other;
  const fs::path copy = other.path() / "a copy";
  fs::copy(r.at(1), copy, fs::copy_options::recursive);
  const SubprocessResult table = checkpoint({"inspect", copy.string()});
  INFO(table.out << table.err);
  REQUIRE(table.exit_code == 0);
  CHECK(widest(table.out) <= 100);
  CHECK_THAT(table.out, Contains("low_precision_scaling") && Contains("tokenizer") && Contains("embedding.weight"));
  const json value = checkpoint_json({"inspect", copy.string()});
  CHECK(value["completeness"].size() == 12);
  CHECK(value["completeness"]["versions"]["parts"].size() == 5);
  CHECK(value["meta"].size() == 5);
  CHECK(value["tensors"].size() == small_model().size());
  CHECK(value["scalars"]["consumed_samples"] == 16);
  CHECK(value["topology"]["tensor_parallel"] == 1);
  CHECK(value["files"].size() == 4);
  CHECK(value["receipts"].size() == 2);
  CHECK(checkpoint({"verify", "--full", copy.string()}).exit_code == 0);
  CHECK(checkpoint_json({"diff", copy.string(), r.at(1)})["same"] == true);
}

TEST_CASE("a step may be written as in the name of its folder, with leading zeros", "[cli][checkpoint]") {
  Run r(10);
  for (const char* step : {"8", "00000008", "010"})
    CHECK(checkpoint_json({"inspect", r.folder.path().string(), "--step", step})["step"] == std::stoi(step));
}

TEST_CASE("verify --full ends with 5, names file and block, and leaves UNUSABLE", "[cli][checkpoint]") {
  Run r(2);
  const std::string file = r.at(2) + "/data/optim-r00001.safetensors";
  put_byte(file, file_bytes(file).size() - 2, '#');
  CHECK(checkpoint({"verify", r.at(2)}).exit_code == 0);  // sizes and headers agree
  const SubprocessResult found = checkpoint({"verify", "--full", r.at(2)});
  CHECK(found.exit_code == 5);
  CHECK_THAT(found.out, Contains("data/optim-r00001.safetensors: block 0") && Contains("UNUSABLE"));
  CHECK(checkpoint_json({"list", r.root().string()})["checkpoints"][0]["state"] == "unusable");
  const json chosen = checkpoint_json({"verify", "--full", r.folder.path().string()});  // the newest usable one
  CHECK(chosen["checkpoint"]["step"] == 1);
  CHECK(chosen["checkpoint"]["verified"] == true);
}

TEST_CASE("of a run every tool names the newer checkpoints that it passes over, with the reason", "[cli][checkpoint]") {
  Run r(4);
  const std::string run_dir = r.folder.path().string();
  fs::remove(r.at(4) + "/COMMITTED");
  fs::remove(r.at(3) + "/data/model-r00000.safetensors");
  REQUIRE(checkpoint({"mark", "unusable", r.at(2), "--reason", "loss spike"}).exit_code == 0);
  const std::vector<std::string> told = {r.at(4) + " (incomplete): it was never committed",
                                         r.at(3) + " (damaged): data/model-r00000.safetensors is missing",
                                         r.at(2) + " (unusable)", "loss spike"};
  const std::vector<std::vector<std::string>> tools = {
      {"inspect", run_dir},           {"diff", run_dir, r.at(1)},
      {"diff", r.at(1), run_dir},     {"mark", "pin", run_dir, "--reason", "x"},
      {"mark", "unpin", run_dir},     {"export", run_dir, "--to", "hf", "--output", run_dir + "/hf"},
      {"inspect", run_dir, "--json"}, {"export", run_dir, "--to", "gguf", "--output", run_dir + "/gguf"}};
  for (const auto& tool : tools) {
    const SubprocessResult got = checkpoint(tool);
    INFO(tool[0] << "\n" << got.out);
    CHECK(got.exit_code == (tool[0] == "export" ? 5 : 0));  // these tensors are no model
    for (const std::string& words : told) CHECK_THAT(got.err, Contains(words));
    CHECK_THAT(got.out, !Contains("passed over"));
  }
  for (const auto& tool : tools)  // named exactly, there is nothing to tell
    if (tool[0] == "inspect") CHECK(checkpoint({"inspect", run_dir, "--step", "1"}).err == "");
}

TEST_CASE("export refuses what its format does not have, before it reads or writes", "[cli][checkpoint]") {
  const Run r(1);
  const fs::path output = r.folder.path() / "out";
  const auto refuses = [&](const std::string& to, const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> all = {"export", r.at(1), "--to", to, "--output", output.string()};
    all.insert(all.end(), more.begin(), more.end());
    const SubprocessResult got = checkpoint(all);
    CHECK(got.exit_code == 2);
    CHECK_THAT(got.err, Contains(why));
    CHECK_FALSE(fs::exists(output));
  };
  refuses("gguf", {"--max-shard-bytes", "5000"}, "--max-shard-bytes does not go with --to gguf");
  refuses("hf", {"--dtype", "q8_0"}, "--dtype q8_0 is not one of f32, bf16");
  refuses("hf", {"--max-shard-bytes", "0"}, "the least is 1");
  refuses("onnx", {}, "hf");
}

TEST_CASE("verify judges the newest of a run, not the newest usable one, but for what is marked or was never committed",
          "[cli][checkpoint]") {
  Run r(3);
  const std::string run_dir = r.folder.path().string(), file = r.at(3) + "/data/model-r00000.safetensors";
  const std::string good = file_bytes(file);
  for (const char* damage : {"gone", "cut", "block"}) {
    INFO(damage);
    std::vector<std::string> verify = {"verify", run_dir};
    if (damage == std::string("gone")) fs::remove(file);
    if (damage == std::string("cut")) fs::resize_file(file, good.size() - 1);
    if (damage == std::string("block")) {
      put_byte(file, good.size() - 2, '#');
      verify.push_back("--full");
    }
    const SubprocessResult found = checkpoint(verify);
    CHECK(found.exit_code == 5);
    CHECK_THAT(found.out, Contains("data/model-r00000.safetensors"));
    CHECK_THAT(found.err, Contains(r.at(3) + " is not whole") && Contains("newest usable one is " + r.at(2)));
    put_bytes(file, good);
  }
  // Found damaged, it is marked: from now on it is passed over, and named.
  const SubprocessResult next = checkpoint({"verify", run_dir});
  CHECK(next.exit_code == 0);
  CHECK_THAT(next.out, Contains(r.at(2)));
  CHECK_THAT(next.err, Contains(r.at(3) + " (unusable): marked unusable by verify --full"));
  REQUIRE(checkpoint({"mark", "unusable", r.at(2), "--reason", "a spike"}).exit_code == 0);
  const SubprocessResult marked = checkpoint({"verify", "--full", r.at(2)});
  CHECK(marked.exit_code == 5);
  CHECK_THAT(marked.err, Contains("is whole, and marked unusable") && !Contains("is not whole"));
  REQUIRE(checkpoint({"mark", "usable", r.at(2)}).exit_code == 0);
  fs::remove(r.at(2) + "/COMMITTED");
  CHECK_THAT(checkpoint({"verify", run_dir}).err, Contains(r.at(2) + " (incomplete)"));
  fs::remove(r.at(1) + "/COMMITTED");
  const SubprocessResult none = checkpoint({"verify", run_dir});
  CHECK(none.exit_code == 5);
  CHECK_THAT(none.err, Contains(r.at(3)) && Contains(r.at(2)) && Contains(r.at(1)));
}

TEST_CASE("mark usable looks before it takes a mark away: damage that was found stays marked until it is gone",
          "[cli][checkpoint]") {
  Run r(3);
  const std::string run_dir = r.folder.path().string(), file = r.at(3) + "/data/optim-r00001.safetensors";
  const std::string good = file_bytes(file);
  put_byte(file, good.size() - 2, '#');
  REQUIRE(checkpoint({"verify", "--full", run_dir}).exit_code == 5);
  const SubprocessResult refused = checkpoint({"mark", "usable", r.at(3)});
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.err, Contains("stays unusable") && Contains("optim-r00001.safetensors: block 0"));
  CHECK_THAT(checkpoint({"mark", "unusable", r.at(3), "--reason", "mine"}).out, Contains("damage is proven"));
  CHECK(checkpoint({"mark", "usable", r.at(3)}).exit_code == 5);
  CHECK(checkpoint_json({"prune", run_dir, "--keep", "1"})["removed"] == json{r.at(1)});
  put_bytes(file, good);
  const SubprocessResult again = checkpoint({"mark", "usable", r.at(3)});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Contains("now usable, verified") && Contains("every block"));
  REQUIRE(checkpoint({"mark", "unusable", r.at(3), "--reason", "mine"}).exit_code == 0);
  const SubprocessResult whose = checkpoint({"mark", "usable", run_dir});
  CHECK(whose.exit_code == 2);
  CHECK_THAT(whose.err, Contains("--step") && Contains("steps 3 (unusable), 2 (usable)"));
  CHECK_THAT(checkpoint({"mark", "usable", run_dir, "--step", "3"}).out, Contains("not the blocks"));
}

TEST_CASE("mark takes its verdict before or after the path, and refuses others by name", "[cli][checkpoint]") {
  Run r(1);
  CHECK(checkpoint_json({"mark", r.at(1), "pin", "--reason", "mine"})["checkpoint"]["pinned"] == true);
  CHECK(checkpoint_json({"mark", "unpin", r.at(1)})["changed"] == true);
  CHECK(checkpoint_json({"mark", "unpin", r.at(1)})["changed"] == false);
  const SubprocessResult wrong = checkpoint({"mark", "unusble", r.at(1), "--reason", "x"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err, Contains("did you mean unusable?"));
  const SubprocessResult silent = checkpoint({"mark", "pin", r.at(1)});
  CHECK(silent.exit_code == 2);
  CHECK_THAT(silent.err, Contains("--reason"));
}

TEST_CASE("prune leaves pins and multiples, waits for the run's lock, and a dry run says the same",
          "[cli][checkpoint]") {
  Run r(6);
  REQUIRE(checkpoint({"mark", "pin", r.at(1), "--reason", "mine"}).exit_code == 0);
  const std::string run_dir = r.folder.path().string();
  const std::vector<std::string> prune = {"prune", run_dir, "--keep", "1", "--keep-every-steps", "4"};
  auto dry = prune;
  dry.push_back("--dry-run");
  const json would = checkpoint_json(dry);
  CHECK(would["removed"].size() == 3);
  FileLock lock;
  REQUIRE(lock.try_acquire(r.folder.path() / "lock", "pid 1", nullptr));
  const SubprocessResult live = checkpoint(prune);
  CHECK(live.exit_code == 3);
  CHECK_THAT(live.err, Contains("still using") && Contains("pid 1") && Contains("checkpoint.keep"));
  CHECK(checkpoint({"prune", r.root().string() + "/", "--keep", "1"}).exit_code == 3);
  lock = FileLock();
  FileLock ranks;  // of a launcher that was killed
  REQUIRE(ranks.try_share(r.folder.path() / "ranks.lock", "pid 2"));
  const SubprocessResult orphaned = checkpoint(prune);
  CHECK(orphaned.exit_code == 3);
  CHECK_THAT(orphaned.err, Contains("still using") && Contains("pid 2"));
  ranks = FileLock();
  CHECK(checkpoint_json(prune)["removed"] == would["removed"]);
  CHECK(checkpoint_json({"list", run_dir})["checkpoints"].size() == 3);
}

TEST_CASE("prune refuses a folder that holds no checkpoints and is not of a run; a run may have none yet",
          "[cli][checkpoint]") {
  ScratchFolder folder;
  fs::create_directories(folder.path() / "some/checkpoints");
  for (const std::string& path : {folder.path().string(), (folder.path() / "some").string()})
    for (const char* dry : {"--keep-every-steps=0", "--dry-run"}) {
      const SubprocessResult refused = checkpoint({"prune", path, "--keep", "1", dry});
      CHECK(refused.exit_code == 5);
      CHECK_THAT(refused.err, Contains(path) && Contains("holds no checkpoints"));
    }
  put_bytes(folder.path() / "some/launch.json", "{}");
  CHECK_THAT(checkpoint({"prune", (folder.path() / "some").string(), "--keep", "1"}).out,
             Contains("nothing to remove"));
}

TEST_CASE("adopt ends an interrupted save that list points at; refused attempts end with 5 and the reason",
          "[cli][checkpoint]") {
  Run r(1);
  const std::string run_dir = r.folder.path().string();
  const SubprocessResult none = checkpoint({"adopt", run_dir});
  CHECK(none.exit_code == 5);
  CHECK_THAT(none.err, Contains("no interrupted save that can be adopted"));
  const fs::path attempt = r.interrupt(2);
  const SubprocessResult table = checkpoint({"list", run_dir});
  CHECK_THAT(table.out, Contains("attempt") && Contains("trainctl checkpoint adopt"));
  CHECK(checkpoint_json({"list", run_dir})["attempts"][0]["adoptable"] == true);
  const fs::path receipt = attempt / receipt_path(1);
  const std::string good = file_bytes(receipt);
  fs::remove(receipt);
  for (const std::string& path : {run_dir, attempt.string()}) {
    const SubprocessResult refused = checkpoint({"adopt", path});
    CHECK(refused.exit_code == 5);
    CHECK_THAT(refused.err, Contains("1 of 2 receipts are missing"));
  }
  put_bytes(receipt, good);
  FileLock lock;
  REQUIRE(lock.try_acquire(r.folder.path() / "lock", "pid 1", nullptr));
  const SubprocessResult live = checkpoint({"adopt", run_dir});
  CHECK(live.exit_code == 3);
  CHECK_THAT(live.err, Contains("still using") && Contains("adopt when it has ended") && !Contains("checkpoint.keep"));
  CHECK(checkpoint({"adopt", attempt.string()}).exit_code == 3);
  lock = FileLock();
  const json adopted = checkpoint_json({"adopt", run_dir});
  CHECK(adopted["checkpoint"]["step"] == 2);
  CHECK(adopted["checkpoint"]["verified"] == true);
  CHECK(checkpoint({"verify", "--full", r.at(2)}).exit_code == 0);
}

}  // namespace trainctl::testing
