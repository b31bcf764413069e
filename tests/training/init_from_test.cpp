// tests/training/init_from_test.cpp -- `trainctl launch --init-from`: whole runs that start from other weights.
#include <cstring>

#include "support/load_line.h"
#include "support/local_runs.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

}  // namespace

TEST_CASE("a run from the weights of another, as they are, exported and imported, starts where that one ended",
          "[training][init-from]") {
  const Runs runs;
  runs.train("base", set({kOneRank, "runtime.steps=6", "runtime.eval_every_steps=6", "runtime.seed=5"}));
  const double ended = runs.metric("base", "eval_loss").at(6);
  REQUIRE(runs.trainctl({"checkpoint", "export", "base", "--to", "hf", "--output", "hf"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "import", "--from", "hf", "hf", "--output", "imported"}).exit_code == 0);
  const auto listed = nlohmann::json::parse(runs.trainctl({"checkpoint", "list", "imported", "--json"}).out);
  REQUIRE(listed.at("checkpoints").size() == 1);
  CHECK(listed.at("checkpoints")[0].at("kind") == "portable");

  // A learning rate that moves nothing: the evaluation after the first step is one of the weights it started from.
  const std::vector<std::string> still = {"runtime.steps=1", "runtime.eval_every_steps=1", "optimizer.lr=1e-30",
                                          "runtime.seed=5"};
  const auto with = [&still](std::vector<std::string> layout) {
    layout.insert(layout.end(), still.begin(), still.end());
    return layout;
  };
  runs.train("random", set(with({kOneRank})));
  CHECK(runs.metric("random", "eval_loss").at(1) > ended + 0.1);
  runs.train("from_run", set(with({kOneRank}), {"--init-from", "base"}));
  runs.train("from_import", set(with({kOneRank}), {"--init-from", "imported"}));
  runs.train("from_four",
             set(with({"parallelism.tensor_parallel=2", kPp2}), {"--init-from", "imported", "--ranks", "4"}));
  for (const char* run_dir : {"from_run", "from_import", "from_four"}) {
    INFO(run_dir);
    CHECK(runs.metric(run_dir, "eval_loss").at(1) == Approx(ended).epsilon(1e-6));
    CHECK(runs.metric(run_dir, "loss").at(1) == Approx(runs.metric("from_run", "loss").at(1)).epsilon(1e-5));
  }
  CHECK(runs.metric("from_import", "loss") == runs.metric("from_run", "loss"));  // the same bits
  const LoadLine load = last_load(runs.path() / "from_four");
  CHECK(load.stored > 0);
  CHECK(load.read == load.stored);  // once, and not by each of the four

  const SubprocessResult gguf = runs.trainctl(
      {"checkpoint", "export", "base", "--to", "gguf", "--output", "base.gguf", "--dtype", "q8_0", "--json"});
  INFO(gguf.out << gguf.err);
  REQUIRE(gguf.exit_code == 0);
  CHECK(json::parse(gguf.out)["bytes"] == fs::file_size(runs.path() / "base.gguf"));
  refused(runs.trainctl({"checkpoint", "export", "base", "--to", "hf", "--output", "hf", "--dtype", "q8_0"}), 2,
          "q8_0");

  const json base = runs.inspect("base"), made = runs.inspect("from_run");
  CHECK(made["step"] == 1);
  CHECK(made["parent"] == base["manifest_sha256"]);
  CHECK(made["provenance"]["init_from"]["manifest_sha256"] == base["manifest_sha256"]);
  CHECK(made["provenance"]["init_from"]["kind"] == "training");
  CHECK(made["provenance"]["init_from"]["step"] == 6);
  CHECK(runs.inspect("from_four")["provenance"]["init_from"]["kind"] == "portable");
}

TEST_CASE("of a bf16 run the f32 export starts a run as the run itself does, bit for bit", "[training][init-from]") {
  const Runs runs;
  const std::string bf16 = "runtime.precision=\"bf16\"";
  runs.train("base", set({kOneRank, "runtime.steps=4", "runtime.seed=5", bf16}));
  for (const std::string dtype : {"f32", "bf16"}) {
    const SubprocessResult made =
        runs.trainctl({"checkpoint", "export", "base", "--to", "hf", "--output", "hf-" + dtype, "--dtype", dtype});
    INFO(made.err);
    REQUIRE(made.exit_code == 0);
    CHECK_THAT(made.out, Catch::Contains("from the f32 masters"));
    REQUIRE(runs.trainctl({"checkpoint", "import", "--from", "hf", "hf-" + dtype, "--output", dtype}).exit_code == 0);
  }
  for (const std::string& precision : {std::string("runtime.precision=\"f32\""), bf16}) {
    INFO(precision);
    const auto losses = [&](const std::string& name, const std::string& from) {
      runs.train(name, set({kOneRank, "runtime.steps=3", "runtime.seed=5", precision}, {"--init-from", from}));
      return runs.metric(name, "loss");
    };
    const std::string of = precision == bf16 ? "-bf16" : "-f32";
    const auto wanted = losses("from-run" + of, "base");
    CHECK(losses("from-f32" + of, "f32") == wanted);
    CHECK(losses("from-bf16" + of, "bf16") !=
          wanted);  // the masters' last bits matter, so the first check says something
  }
}

TEST_CASE("a run that started from other weights goes on with its own, and starts from them again while it has none",
          "[training][init-from]") {
  const Runs runs;
  runs.train("base", set({kOneRank, "runtime.steps=3", "runtime.seed=5"}));
  const auto from_base = [](std::vector<std::string> settings) {
    settings.push_back(kOneRank);
    return set(settings, {"--init-from", "base"});
  };
  runs.train("straight", from_base({"runtime.steps=4", "optimizer.schedule.decay_steps=4"}));
  const auto straight = runs.metric("straight", "loss");

  runs.train("parts", from_base({"runtime.steps=2", "optimizer.schedule.decay_steps=4"}));
  const SubprocessResult again =
      runs.launch("parts", from_base({"runtime.steps=4", "optimizer.schedule.decay_steps=4"}));
  INFO(again.out << again.err);
  REQUIRE(again.exit_code == 0);
  CHECK_THAT(again.out + again.err, Catch::Contains("continues after step 2"));
  CHECK(runs.metric("parts", "loss") == straight);
  CHECK(runs.inspect("parts")["provenance"]["init_from"]["step"] == 3);

  // Nothing was saved: the launch.json of the run still says what it starts from.
  const std::vector<std::string> unsaved = {"checkpoint.at_end=false", "optimizer.schedule.decay_steps=4"};
  runs.train("unsaved", from_base({unsaved[0], unsaved[1], "runtime.steps=1"}));
  runs.train("unsaved", set({kOneRank, unsaved[1], "runtime.steps=4"}));
  CHECK(runs.metric("unsaved", "loss") == straight);

  // The source may be gone once the run has a state of its own.
  fs::rename(runs.path() / "base", runs.path() / "elsewhere");
  runs.train("parts", set({kOneRank, "runtime.steps=5", "optimizer.schedule.decay_steps=4"}));
  runs.train("parts", from_base({"runtime.steps=6", "optimizer.schedule.decay_steps=4"}));
}

TEST_CASE("a tied model of two stages is exported with one embedding and no head, and its folder alone starts a run",
          "[training][init-from]") {
  const Runs runs;
  const std::string tied = "model.tie_embeddings=true";
  runs.train("two_stages", set({kOneRank, kPp2, tied, "runtime.steps=3"}, {"--ranks", "2"}));
  runs.train("from_run", set({kOneRank, tied, "runtime.steps=2"}, {"--init-from", "two_stages"}));
  REQUIRE(runs.trainctl({"checkpoint", "export", "two_stages", "--to", "hf", "--output", "hf"}).exit_code == 0);

  // Nothing else is left when it is read again, from another place.
  fs::create_directories(runs.path() / "far away");
  fs::rename(runs.path() / "hf", runs.path() / "far away/model");
  fs::remove_all(runs.path() / "two_stages");
  const fs::path moved = runs.path() / "far away/model";
  const std::string weights = read_text(moved / "model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, weights.data(), sizeof header_bytes);
  const json header = json::parse(weights.substr(8, header_bytes));
  CHECK(header.contains("model.embed_tokens.weight"));
  CHECK_FALSE(header.contains("lm_head.weight"));
  CHECK(json::parse(read_text(moved / "config.json"))["tie_word_embeddings"] == true);
  CHECK(fs::exists(moved / "tokenizer.json"));
  REQUIRE(runs.trainctl({"checkpoint", "import", "--from", "hf", moved.string(), "--output", "imported"}).exit_code ==
          0);
  runs.train("from_folder", set({kOneRank, tied, "runtime.steps=2"}, {"--init-from", "imported"}));
  CHECK(runs.metric("from_folder", "loss") == runs.metric("from_run", "loss"));  // the same bits
  refused(runs.launch("untied", set({kOneRank, "runtime.steps=1"}, {"--init-from", "imported"})), 5, "head.weight");
}

TEST_CASE("contradictions and unfit sources are refused before anything is made", "[training][init-from]") {
  const Runs runs;
  runs.train("base", set({kOneRank, "runtime.steps=1"}));
  runs.train("other", set({kOneRank, "runtime.steps=1", "runtime.seed=9"}));
  runs.train("own", set({kOneRank, "runtime.steps=1"}));
  runs.train("started", set({kOneRank, "runtime.steps=1"}, {"--init-from", "base"}));
  const auto launch = [&](const std::string& run_dir, const std::vector<std::string>& more,
                          const std::vector<std::string>& settings = {}) {
    std::vector<std::string> all = {kOneRank, "runtime.steps=1"};
    all.insert(all.end(), settings.begin(), settings.end());
    return runs.launch(run_dir, set(all, more));
  };
  refused(launch("new", {"--init-from", "base", "--resume", "base"}), 2, "contradict each other");
  refused(launch("new", {"--allow-intermediate"}), 2, "--allow-intermediate");
  refused(launch("new", {"--init-from", "nowhere"}), 5, "there is nothing");
  refused(launch("new", {"--init-from", "base"}, {"model.d_ff=96"}), 5, "has the shape [128, 64] there, [96, 64] here");
  refused(launch("own", {"--init-from", "base"}), 2, "did not start from other weights");
  refused(launch("started", {"--init-from", "other"}), 2, "another checkpoint than the one");
  REQUIRE(runs.trainctl({"checkpoint", "export", "base", "--to", "hf", "--output", "hf"}).exit_code == 0);
  REQUIRE(runs.trainctl({"checkpoint", "import", "--from", "hf", "hf", "--output", "imported"}).exit_code == 0);
  refused(launch("new", {"--init-from", "hf"}), 5, "checkpoint import --from hf");
  fs::remove(runs.path() / "hf/model.safetensors");
  refused(runs.trainctl({"checkpoint", "import", "--from", "hf", "hf", "--output", "again"}), 2, "model.safetensors");
  CHECK_FALSE(fs::exists(runs.path() / "again"));
  CHECK_FALSE(fs::exists(runs.path() / "new"));
  refused(launch("new", {"--resume", "imported"}), 5, "its kind is portable");
  REQUIRE(runs.trainctl({"checkpoint", "mark", "unusable", "imported", "--reason", "licence"}).exit_code == 0);
  refused(launch("newer", {"--init-from", "imported"}), 5, "licence");
  CHECK_FALSE(fs::exists(runs.path() / "newer"));
}

}  // namespace trainctl::testing
