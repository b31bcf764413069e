// tests/unit/interop/hf_folder_test.cpp -- the folder an export becomes: shards, records, what is replaced and what
// not.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "base/error.h"
#include "checkpoint/scan.h"
#include "interop/hf_export.h"
#include "interop/publish.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string refusal(const fs::path& checkpoint, const fs::path& output) {
  try {
    export_hf(checkpoint, output);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shards hold at most the bytes asked for, every tensor once, and the index says where", "[interop]") {
  const Golden g = golden("gpt2");
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", g), out = scratch.path() / "out";
  constexpr int64_t kLimit = 12'500;  // just above the largest tensor
  HfExportOptions options;
  options.max_shard_bytes = kLimit;
  export_hf(checkpoint, out, options);
  const auto exported = read_export(out);
  CHECK(back_to_trainctl(exported) == g.weights);
  std::map<std::string, int64_t> bytes;
  int64_t total = 0;
  json map;
  for (const auto& [name, what] : exported) {
    bytes[what.file] += static_cast<int64_t>(what.values.data.size()) * 4;
    total += static_cast<int64_t>(what.values.data.size()) * 4;
    map[name] = what.file;
  }
  CHECK(bytes.size() > 5);
  int64_t k = 0;
  for (const auto& [file, held] : bytes) {
    CHECK(file == fmt::format("model-{:05}-of-{:05}.safetensors", ++k, bytes.size()));
    CHECK(held <= kLimit);
  }
  const json index = read_json(out / "model.safetensors.index.json");
  CHECK(index["weight_map"] == map);
  CHECK(index["metadata"]["total_size"] == total);

  options.max_shard_bytes = 1;  // a tensor is never cut
  export_hf(checkpoint, scratch.path() / "single", options);
  std::set<std::string> files;
  for (const auto& [name, what] : read_export(scratch.path() / "single")) files.insert(what.file);
  CHECK(files.size() == exported.size());
}

TEST_CASE("a new export leaves no file of the one it replaces, and no folder beside it", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama"));
  const fs::path out = scratch.path() / "out";
  HfExportOptions small;
  small.max_shard_bytes = 10'000;
  export_hf(checkpoint, out, small);
  REQUIRE(fs::exists(out / "model.safetensors.index.json"));
  const HfExportReport report = export_hf(checkpoint, scratch.path() / "out/");
  const std::vector<std::string> expected = {"README.md", "config.json", "generation_config.json", "model.safetensors",
                                             "trainctl_export.json"};
  CHECK(report.files == expected);
  CHECK(names_below(out) == expected);
  CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "out"});
}

TEST_CASE("the export's record names the checkpoint it came from", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("qwen2"));
  const HfExportReport report = export_hf(checkpoint, scratch.path() / "out");
  const json record = read_json(scratch.path() / "out" / kExportRecord);
  CHECK(record["manifest_sha256"] == inspect_folder(checkpoint).manifest_sha256);
  CHECK(record["step"] == 7);
  CHECK(record["files"] == json(report.files));
}

TEST_CASE("what is no export of ours is left alone: files, links, foreign folders, files added to an export",
          "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama_tied"));
  const auto at = [&](const char* name) { return scratch.path() / name; };
  fs::create_directories(at("foreign"));
  put_bytes(at("foreign") / "mine.txt", "precious");
  fs::create_directories(at("pretender"));
  put_bytes(at("pretender") / kExportRecord, "{\"format\":\"else\"}");
  put_bytes(at("file"), "precious");
  export_hf(checkpoint, at("export"));
  put_bytes(at("export") / "tokenizer.json", "precious");
  fs::create_directory_symlink(at("foreign"), at("link"));
  CHECK(refusal(checkpoint, at("foreign")).find("not an export") != std::string::npos);
  CHECK(refusal(checkpoint, at("pretender")).find("not an export") != std::string::npos);
  CHECK(refusal(checkpoint, at("file")).find("not a folder") != std::string::npos);
  CHECK(refusal(checkpoint, at("link")).find("not a folder") != std::string::npos);
  CHECK(refusal(checkpoint, at("export")).find("tokenizer.json") != std::string::npos);
  CHECK(refusal(checkpoint, checkpoint / "out").find("lies in the checkpoint") != std::string::npos);
  for (const char* hidden : {".staging", ".staging/y", ".trash-step-00000001-00/y", ".superseded-step-00000001-00/y"})
    CHECK(refusal(checkpoint, checkpoint.parent_path() / hidden).find("put things aside") != std::string::npos);
  CHECK(refusal(checkpoint, at("step-00000009")).find("taken for a checkpoint") != std::string::npos);
  CHECK(file_bytes(at("foreign") / "mine.txt") == "precious");
  CHECK(file_bytes(at("file")) == "precious");
  CHECK(file_bytes(at("export") / "tokenizer.json") == "precious");
  CHECK(names_below(scratch.path()) ==
        std::vector<std::string>{"checkpoints", "export", "file", "foreign", "link", "pretender"});

  fs::create_directories(at("empty"));
  export_hf(checkpoint, at("empty"));
  CHECK(fs::exists(at("empty") / "config.json"));
}

TEST_CASE("what a killed export left is removed by the next one, unless its writer lives", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama_tied"));
  const fs::path dead = scratch.path() / ".out.trainctl-export-0123456789ab";
  fs::create_directories(dead);
  put_bytes(dead / "model.safetensors", "half");
  put_bytes(dead / ".writing", "");
  {
    const PublishedFolder living(scratch.path() / "out");  // removes the dead one
    CHECK(!fs::exists(dead));
    export_hf(checkpoint, scratch.path() / "out");
    CHECK(fs::exists(living.folder()));
  }
  CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "out"});
}

TEST_CASE("an export killed at any tensor leaves the earlier one whole, and the next one cleans up", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama_tied"));
  const fs::path out = scratch.path() / "out";
  export_hf(checkpoint, out);
  const std::string before = file_bytes(out / "model.safetensors");
  const auto names = names_below(out);
  for (int kill_at = 1; kill_at <= 20; ++kill_at) {  // one call of progress per tensor
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      HfExportOptions options;
      options.max_shard_bytes = 10'000;
      options.progress = [&kill_at](int64_t, int64_t) {
        if (--kill_at == 0) ::raise(SIGKILL);
      };
      try {
        export_hf(checkpoint, out, options);
      } catch (...) {
      }
      ::_exit(1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(names_below(out) == names);
    CHECK(file_bytes(out / "model.safetensors") == before);
    CHECK(names_below(scratch.path()).size() == 3);  // one leftover: the killed one before was removed
  }
  export_hf(checkpoint, out);
  CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "out"});
}
