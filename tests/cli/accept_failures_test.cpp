// tests/cli/accept_failures_test.cpp -- `trainctl accept` with workers that go wrong between the phases of a drill: the
// error names the check, the numbers and what to do, and nothing is marked. tests/unit/accept has every check.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

constexpr int64_t kSteps = 16;

// A worker with something done before it starts. `script` sees $run (whole, killed or other), $again (empty in the
// first launch of a run), $drill (the folder), $launch (launch.json) and may change "$@" or exit.
class BadDrill {
 public:
  explicit BadDrill(const std::string& script) : fixture_(1000) {
    fixture_.use_real_worker_after(R"sh(for a in "$@"; do [ "$last" = --launch ] && launch=$a; last=$a; done
drill=$(dirname "$(dirname "$launch")")
run=$(basename "$(dirname "$launch")")
again=
[ -e "$drill/started-$run" ] && again=yes
: > "$drill/started-$run"
)sh" + script);
    process_ = std::make_unique<Subprocess>(
        std::vector<std::string>{program("trainctl"), "accept", fixture_.recipe, "--only", "checkpoint", "--topology",
                                 fixture_.topology, "--ranks", "2", "--launcher", "threads", "--worker",
                                 fixture_.worker, "--folder", folder().string(), "--json", "--steps",
                                 std::to_string(kSteps)},
        fixture_.options("", 90));
  }

  // Ends with 5 and an error whose first line has `check` and `found`, the next one `advice`.
  void check_fails(const std::string& check, const std::string& found, const std::string& advice) {
    const SubprocessResult r = process_->wait();
    INFO(r.out << r.err);
    CHECK(r.exit_code == 5);
    const size_t error = r.err.find("trainctl: checkpoint: the drill failed: ");
    REQUIRE(error != std::string::npos);
    const size_t end = r.err.find('\n', error);
    CHECK_THAT(r.err.substr(error, end - error), Contains(check + ": ") && Contains(found));
    CHECK_THAT(r.err.substr(end), Contains("\nwhat to do: ") && Contains(advice));
    const auto report = nlohmann::json::parse(r.out);
    CHECK(report["passed"] == false);
    CHECK(report["drilled"] == "");
    for (const auto& entry : fs::recursive_directory_iterator(folder())) CHECK(entry.path().filename() != "DRILLED");
  }

 private:
  fs::path folder() const { return fixture_.folder.path() / "drill"; }
  LaunchFixture fixture_;
  std::unique_ptr<Subprocess> process_;
};

const std::string kMiddle = "$drill/whole/checkpoints/step-0000000" + std::to_string(kSteps / 2);

}  // namespace

TEST_CASE(
    "a drill whose worker loses optimizer state, takes another seed, finds damage or begins anew says which check "
    "failed",
    "[cli][accept]") {
  // All at once.
  BadDrill moments("[ $run = other ] && { " + program("trainctl_forget_moments") + " " + kMiddle + " || exit 70; }");
  BadDrill seed(R"([ $run = killed ] && [ $again ] && {
  sed -E 's/"seed": ?1234/"seed": 99/' "$launch" > "$launch.other"
  set -- --threads --launch "$launch.other"
})");
  BadDrill damage("[ $run = other ] && printf x | dd of=" + kMiddle +
                  "/data/model-r00000.safetensors bs=1 seek=70000 conv=notrunc 2>/dev/null");
  BadDrill anew(R"([ $run = killed ] && [ $again ] && rm -rf "$drill/killed/checkpoints")");
  moments.check_fails("its losses and norms agree with the uninterrupted run", "at step", "was not restored");
  seed.check_fails("the killed run, started again, ends well", "belongs to other data", "killed.log");
  damage.check_fails("a run of another layout continues from the checkpoint", "no usable checkpoint at",
                     "verify --full");
  anew.check_fails("and it went on from the state that was left", "does not come from step", "killed.log");
}

}  // namespace trainctl::testing
