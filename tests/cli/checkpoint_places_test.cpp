// tests/cli/checkpoint_places_test.cpp -- `trainctl checkpoint` where something else is in the place of a folder, or a
// folder may not be looked into: it is told as what it is.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/subprocess.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Commands = std::vector<std::vector<std::string>>;

struct Run {
  explicit Run(int64_t last) {
    for (int64_t step = 1; step <= last; ++step) save_once(root(), 2, step, static_cast<uint32_t>(step), 99);
    put_bytes(folder.path() / "launch.json", "{}");
    fs::permissions(folder.path(), fs::perms::all);
  }
  fs::path root() const { return folder.path() / "checkpoints"; }
  std::string at(int64_t step) const { return (root() / folder_name_of(step)).string(); }
  std::string dir() const { return folder.path().string(); }
  // Every command with a path to a checkpoint or a run.
  static Commands commands(const std::string& path) {
    return {{"list", path},
            {"inspect", path},
            {"verify", path},
            {"diff", path, path},
            {"mark", "pin", path, "--reason", "x"},
            {"mark", "usable", path, "--step", "1"},
            {"prune", path, "--keep", "1"},
            {"prune", path, "--keep", "1", "--dry-run"},
            {"adopt", path},
            {"export", path, "--to", "hf", "--output", "made"}};
  }
  SubprocessResult checkpoint(std::vector<std::string> arguments, bool as_nobody = false) const {
    arguments.insert(arguments.begin(), {program("trainctl"), "checkpoint"});
    if (as_nobody && ::geteuid() == 0)
      arguments.insert(arguments.begin(), {"setpriv", "--reuid", "65534", "--clear-groups"});
    SubprocessResult r = run(arguments, {.environment = {}, .directory = folder.path(), .timeout_s = 20});
    std::string line;
    for (const std::string& word : arguments) line += " " + word;
    UNSCOPED_INFO(line << "\n" << r.exit_code << "\n" << r.out << r.err);
    return r;
  }
  ScratchFolder folder;
};

}  // namespace

TEST_CASE("a checkpoints/ that is a file or a link to nothing is no run without checkpoints", "[cli][checkpoint]") {
  const Run r(1);
  fs::rename(r.root(), r.folder.path() / "elsewhere");
  const auto all_say = [&r](const std::string& path, const std::string& what) {
    for (const auto& command : Run::commands(path)) {
      const SubprocessResult got = r.checkpoint(command);
      CHECK(got.exit_code == 5);
      CHECK_THAT(got.err, Contains(r.root().string() + " " + what));
    }
  };
  fs::create_symlink("gone/away", r.root());
  all_say(r.dir(), "is a link to gone/away, which does not exist");
  all_say(r.root().string(), "is a link to gone/away, which does not exist");
  fs::remove(r.root());
  put_bytes(r.root(), "a file");
  all_say(r.dir(), "is a file, not a folder");
  all_say(r.root().string(), "is a file, not a folder");
  fs::remove(r.root());
  fs::create_symlink("elsewhere", r.root());  // a link to a folder is as good as the folder
  CHECK(r.checkpoint({"verify", r.dir()}).exit_code == 0);
}

TEST_CASE("a folder of checkpoints that may not be read is the environment's fault, and not an empty one",
          "[cli][checkpoint]") {
  if (::geteuid() == 0 && run({"sh", "-c", "command -v setpriv"}).exit_code != 0) return;  // nobody else to be
  const Run r(2);
  fs::permissions(r.root() / folder_name_of(1), fs::perms::all);
  // Everybody's rights: whoever is not root may be of its group.
  constexpr auto kRead = static_cast<fs::perms>(0444), kEnter = static_cast<fs::perms>(0111);
  for (const fs::perms left : {fs::perms::none, kRead, kEnter}) {
    INFO("permissions: " << static_cast<int>(left));
    fs::permissions(r.root(), left);
    for (const std::string& path : {r.dir(), r.root().string()})
      for (const auto& command : Run::commands(path)) {
        const SubprocessResult got = r.checkpoint(command, true);
        CHECK(got.exit_code == 3);
        CHECK_THAT(got.err, Contains(r.root().string()) && Contains("Permission denied"));
      }
  }
  fs::permissions(r.root(), fs::perms::all);
  CHECK(r.checkpoint({"list", r.dir()}, true).exit_code == 0);
}

TEST_CASE("a file or a link to nothing with the name of a step is told as that, kept, and in nobody's way",
          "[cli][checkpoint]") {
  const Run r(2);
  put_bytes(r.at(7), "a file");
  put_bytes(r.root() / "LATEST.tmp", "half");
  const SubprocessResult table = r.checkpoint({"list", r.dir()});
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out, Contains("it is a file, not a folder") && !Contains("LATEST"));
  for (const auto& command :
       Commands{{"verify", r.dir()}, {"inspect", r.dir()}, {"mark", "pin", r.dir(), "--reason", "x"}}) {
    const SubprocessResult got = r.checkpoint(command);
    CHECK(got.exit_code == 0);
    CHECK_THAT(got.out, Contains(r.at(2)));
    CHECK_THAT(got.err, Contains("passed over " + r.at(7) + " (incomplete): it is a file, not a folder"));
  }
  for (const auto& command : Run::commands(r.at(7))) {
    if (command[0] == "adopt" || command[0] == "prune" || command[0] == "list") continue;
    const SubprocessResult got = r.checkpoint(command);
    CHECK(got.exit_code == 5);
    CHECK_THAT(got.err, Contains(r.at(7) + ": it is a file, not a folder") && Contains(r.at(2)));
  }
  CHECK_THAT(r.checkpoint({"list", r.at(7)}).err, Contains(r.at(7) + " is a file, not a folder"));
  CHECK_THAT(r.checkpoint({"adopt", r.at(7)}).err, Contains(r.at(7) + " is a file, not a folder"));
  fs::create_symlink("gone", r.at(9));
  CHECK_THAT(r.checkpoint({"list", r.dir()}).out, Contains("it is a link to gone, which does not exist"));
  for (const auto& command :
       Commands{{"inspect", r.at(9)}, {"verify", r.at(9)}, {"export", r.at(9), "--to", "hf", "--output", "made"}}) {
    const SubprocessResult got = r.checkpoint(command);
    CHECK(got.exit_code == 5);
    CHECK_THAT(got.err, Contains("it is a link to gone, which does not exist"));
  }
  CHECK(r.checkpoint({"mark", "unpin", r.at(2)}).exit_code == 0);
  REQUIRE(r.checkpoint({"prune", r.dir(), "--keep", "1"}).exit_code == 0);
  CHECK_FALSE(fs::exists(r.at(1)));
  CHECK(fs::exists(r.at(2)));
  CHECK(file_bytes(r.at(7)) == "a file");
  CHECK(fs::is_symlink(r.at(9)));
}

TEST_CASE("prune takes a run and no single checkpoint, and says what there is for one", "[cli][checkpoint]") {
  const Run r(3);
  fs::copy(r.at(1), r.folder.path() / "alone", fs::copy_options::recursive);
  for (const char* dry : {"--keep-every-steps=0", "--dry-run"}) {
    for (const std::string& path : {r.at(3), r.at(1) + "/", std::string("checkpoints/step-00000002")}) {
      const SubprocessResult got = r.checkpoint({"prune", path, "--keep", "1", dry});
      CHECK(got.exit_code == 2);
      CHECK_THAT(got.err, Contains(path + " is one checkpoint") && Contains("give " + r.dir() + ".") &&
                              Contains("mark unusable") && Contains("mark pin"));
    }
    const SubprocessResult alone = r.checkpoint({"prune", (r.folder.path() / "alone").string(), "--keep", "1", dry});
    CHECK(alone.exit_code == 2);
    CHECK_THAT(alone.err, Contains("alone is one checkpoint (kind training) that is of no run") && Contains("rm -r"));
  }
  for (int64_t step = 1; step <= 3; ++step) CHECK(fs::exists(r.at(step)));
  CHECK(r.checkpoint({"prune", r.dir(), "--keep", "1"}).exit_code == 0);
  CHECK_FALSE(fs::exists(r.at(1)));
}

TEST_CASE("diff counts what differs among what it compared, and the rest apart", "[cli][checkpoint]") {
  const Run r(2);
  const auto diff = [&r](const std::string& a, const std::string& b) {
    return nlohmann::json::parse(r.checkpoint({"diff", a, b, "--json"}).out);
  };
  const nlohmann::json d = diff(r.at(1), r.at(2));
  const int64_t all = std::ssize(small_model());
  CHECK(d["compared"] == all);
  CHECK(d["differ"].get<int64_t>() > 0);
  CHECK(d["differ"].get<int64_t>() <= all);
  CHECK(d["not_comparable"] == 0);
  CHECK(diff(r.at(1), r.at(1))["differ"] == 0);

  // Without one tensor, and with another one more.
  std::vector<GlobalTensor> other = small_model();
  const std::string gone = other.back().name;
  other.back().name = "another.weight";
  ThreadWorld ranks(1);
  RankState state(other, 0, 1);
  state.fill(1);
  Checkpointer c =
      build_checkpointer({}, options_for(r.folder.path() / "other", ranks.agreement(0)), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  for (const SaveOutcome& outcome : c.wait()) REQUIRE(outcome.ok);
  const std::string there = (r.folder.path() / "other" / folder_name_of(1)).string();
  const nlohmann::json e = diff(r.at(1), there);
  CHECK(e["compared"] == all - 1);
  CHECK(e["not_comparable"] == 2);
  CHECK(e["differ"].get<int64_t>() + 2 == std::ssize(e["tensors"]));
  CHECK_THAT(r.checkpoint({"diff", r.at(1), there}).out,
             Contains(std::to_string(all - 1) + " tensors compared, ") && Contains("2 tensors not comparable"));
}

TEST_CASE("a damaged block met by a tool comes with the way on, and that works", "[cli][checkpoint]") {
  const Run r(2);
  const std::string file = r.at(2) + "/data/optim-r00001.safetensors";
  put_byte(file, file_bytes(file).size() - 2, '#');
  const SubprocessResult refused = r.checkpoint({"diff", r.dir(), r.at(1)});
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.err, Contains("trainctl checkpoint verify --full " + r.at(2)));
  CHECK(r.checkpoint({"verify", "--full", r.at(2)}).exit_code == 5);
  CHECK_THAT(r.checkpoint({"diff", r.dir(), r.at(1)}).out, Contains("the same state"));
}

TEST_CASE("mark usable says what keeps it from taking the mark away", "[cli][checkpoint]") {
  const Run r(1);
  fs::create_directories(r.at(1) + "/UNUSABLE/in");
  const SubprocessResult got = r.checkpoint({"mark", "usable", r.at(1)});
  CHECK(got.exit_code == 3);
  CHECK_THAT(got.err, Contains(r.at(1) + "/UNUSABLE: it is a folder") && Contains("by hand"));
  CHECK(fs::exists(r.at(1) + "/UNUSABLE/in"));
  fs::remove_all(r.at(1) + "/UNUSABLE");
  if (::geteuid() == 0 && run({"sh", "-c", "command -v setpriv"}).exit_code != 0) return;  // nobody else to be
  REQUIRE(r.checkpoint({"mark", "unusable", r.at(1), "--reason", "x"}).exit_code == 0);
  fs::permissions(r.at(1), static_cast<fs::perms>(0555));
  const SubprocessResult kept = r.checkpoint({"mark", "usable", r.at(1)}, true);
  CHECK(kept.exit_code == 3);
  CHECK_THAT(kept.err, Contains("cannot remove the mark " + r.at(1) + "/UNUSABLE: Permission denied"));
  fs::permissions(r.at(1), fs::perms::all);
}

TEST_CASE("a dry run of prune says that nothing was removed, and what it did not look at", "[cli][checkpoint]") {
  const Run r(2);
  const SubprocessResult dry = r.checkpoint({"prune", r.dir(), "--keep", "1", "--dry-run"});
  CHECK(dry.exit_code == 0);
  CHECK_THAT(dry.out,
             Contains("would remove " + r.at(1)) && Contains("nothing was removed") && Contains("Not checked"));
  CHECK(fs::exists(r.at(1)));
  CHECK_THAT(r.checkpoint({"prune", r.dir(), "--keep", "1"}).out, !Contains("dry run"));
}

TEST_CASE("a checkpoint that another of its step has superseded is named by its folder", "[cli][checkpoint]") {
  const Run r(2);
  const fs::path old = r.root() / (".superseded-" + folder_name_of(2) + "-" + std::string(32, 'a'));
  fs::copy(r.at(2), old, fs::copy_options::recursive);
  const std::string path = old.string();
  CHECK(nlohmann::json::parse(r.checkpoint({"inspect", path, "--json"}).out)["folder"] == path);
  CHECK(r.checkpoint({"verify", "--full", path}).exit_code == 0);
  CHECK_THAT(r.checkpoint({"diff", path, r.at(2)}).out, Contains("the same state"));
  CHECK(nlohmann::json::parse(r.checkpoint({"inspect", r.dir(), "--step", "2", "--json"}).out)["folder"] == r.at(2));
}

}  // namespace trainctl::testing
