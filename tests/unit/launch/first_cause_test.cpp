// tests/unit/launch/first_cause_test.cpp -- the choice among several reports.
#include "launch/first_cause.h"

#include <algorithm>
#include <csignal>

#include "support/catch.h"

namespace trainctl {
namespace {

using Catch::Contains;

Job job_of(int64_t world) {
  Job job;
  job.launcher = "mpirun";
  job.run_dir = "/runs/a";
  job.world_size = world;
  for (int64_t r = 0; r < world; ++r) job.ranks.push_back({.rank = r, .host = "n" + std::to_string(r / 2)});
  return job;
}

RankFailure failure(int64_t rank, const char* kind, int64_t time_ns, const char* message = "text") {
  RankFailure f;
  f.rank = rank;
  f.host = "n" + std::to_string(rank / 2);
  f.kind = kind;
  f.step = 12;
  f.operation = "backward layers.3";
  f.message = message;
  f.time_ns = time_ns;
  return f;
}

RankFailure hang(int64_t rank, const char* axis, std::vector<int64_t> group, int64_t sequence, int64_t time_ns) {
  RankFailure f = failure(rank, "hang", time_ns);
  f.operation = "forward head";
  f.message = "all_reduce #" + std::to_string(sequence) + " in the " + axis + " group, not finished for 5 s; step 12";
  f.group_axis = axis;
  f.group_ranks = std::move(group);
  f.sequence = sequence;
  f.waited_s = 5;
  return f;
}

}  // namespace

TEST_CASE("the earliest error of a rank's own making is the first cause", "[launch]") {
  const Job job = job_of(4);
  const FirstCause cause = first_cause(
      {.job = &job,
       .failures = {failure(0, "comm", 10), failure(1, "hang", 5), failure(2, "memory", 30, "no room\nfor 3 GiB"),
                    failure(3, "numeric", 20, "loss is not finite")}});
  CHECK(cause.kind == ErrorKind::numeric);
  CHECK_THAT(cause.message, Contains("rank 3 on n1, step 12, in backward layers.3: loss is not finite"));
  CHECK_THAT(cause.details.back(), Contains("what to do"));
}

TEST_CASE("the further lines of a message are kept", "[launch]") {
  const Job job = job_of(4);
  const FirstCause cause =
      first_cause({.job = &job, .failures = {failure(2, "memory", 1, "no room\nfor 3 GiB\nat all")}});
  CHECK_THAT(cause.message, Contains("no room"));
  CHECK(cause.details.at(0) == "for 3 GiB");
  CHECK(cause.details.at(1) == "at all");
}

TEST_CASE("a rank that died without a word comes before the messages that failed for it", "[launch]") {
  const Job job = job_of(4);
  const LauncherVerdict killed = {.rank = 1, .host = "n0", .signal = SIGKILL};
  const std::vector<RankFailure> lost_peer = {failure(0, "comm", 1)};
  CHECK_THAT(first_cause({.job = &job, .failures = lost_peer, .verdict = killed}).message,
             Contains("rank 1 on n0") && Contains("SIGKILL"));
  // But not before an error that explains itself, nor when the launcher only swept up.
  CHECK(first_cause({.job = &job, .failures = {failure(0, "numeric", 1)}, .verdict = killed}).kind ==
        ErrorKind::numeric);
  const LauncherVerdict swept = {.rank = 1, .host = "n0", .signal = SIGTERM};
  CHECK(first_cause({.job = &job, .failures = lost_peer, .verdict = swept}).kind == ErrorKind::comm);
}

TEST_CASE("without any report the last finished step and the last words are told", "[launch]") {
  const Job job = job_of(4);
  const FirstCause cause =
      first_cause({.job = &job, .verdict = {.rank = 3, .exit_code = 3}, .last_step = 7, .last_words = [](int64_t rank) {
                     return "words of " + std::to_string(rank);
                   }});
  CHECK(cause.kind == ErrorKind::environment);
  CHECK_THAT(cause.message, Contains("rank 3 on n1, after step 7") && Contains("exit code 3"));
  CHECK(cause.details.at(0) == "its last words: words of 3");
}

TEST_CASE("a chain of waiting ranks leads to the rank that waits for nobody", "[launch]") {
  // 0 waits for 1 (tensor), 1 waits for 3 (pipeline), 3 is silent; 2 waits for 3 (tensor).
  const Job job = job_of(4);
  const Evidence evidence = {.job = &job,
                             .failures = {hang(0, "tensor", {0, 1}, 40, 1), hang(1, "pipeline", {1, 3}, 9, 2),
                                          hang(2, "tensor", {2, 3}, 41, 3)},
                             .processes = {{.pid = 77, .parent = 1, .state = 'T', .rank = 3}}};
  const FirstCause cause = first_cause(evidence);
  CHECK(cause.kind == ErrorKind::hang);
  CHECK_THAT(cause.message, Contains("all_reduce #9 in the pipeline group") && Contains("entered by rank 1;") &&
                                Contains("not by rank 3"));
  CHECK_THAT(cause.details.at(0), Contains("rank 3 on n1 (pid 77)") && Contains("stopped"));
}

TEST_CASE("ranks of one group in different operations are both named", "[launch]") {
  const Job job = job_of(2);
  RankFailure skipped = hang(1, "tensor", {0, 1}, 41, 2);
  const FirstCause cause = first_cause({.job = &job, .failures = {hang(0, "tensor", {0, 1}, 40, 1), skipped}});
  CHECK_THAT(cause.message + cause.details.at(0), Contains("all_reduce #40") && Contains("all_reduce #41"));
  CHECK_THAT(cause.details.at(0), Contains("was in forward head"));
}

TEST_CASE("a stopped rank is the cause, whatever it says when it is woken", "[launch]") {
  const Job job = job_of(2);
  const FirstCause cause =
      first_cause({.job = &job,
                   .failures = {hang(0, "tensor", {0, 1}, 40, 5), hang(1, "tensor", {0, 1}, 40, 1)},
                   .processes = {{.pid = 7, .parent = 1, .state = 'T', .rank = 1}}});
  CHECK_THAT(cause.message, Contains("entered by rank 0; not by rank 1"));
  CHECK_THAT(cause.details.at(0), Contains("stopped"));
}

TEST_CASE("a rank that is stuck in its own work is the end of the chain", "[launch]") {
  const Job job = job_of(2);
  RankFailure stuck = hang(1, "", {}, -1, 1);
  stuck.message = "no operation under way for 5 s; step 12";
  stuck.operation = "read the batch";
  const FirstCause cause = first_cause({.job = &job, .failures = {hang(0, "tensor", {0, 1}, 40, 2), stuck}});
  CHECK_THAT(cause.message + cause.details.at(0), Contains("read the batch") && Contains("no operation under way"));
}

TEST_CASE("a rank that only says where it stands hides no rank that never came", "[launch]") {
  // 0 is at its place for longer than in its operation; 2 waits in one that 3, which is stopped, never entered.
  const Job job = job_of(4);
  RankFailure stands = hang(0, "", {}, -1, 1);
  stands.message = "the compute thread has not moved for 3 s; step 12";
  const FirstCause cause = first_cause({.job = &job,
                                        .failures = {stands, hang(2, "tensor", {2, 3}, 41, 3)},
                                        .processes = {{.pid = 77, .parent = 1, .state = 'T', .rank = 3}}});
  CHECK_THAT(cause.message, Contains("all_reduce #41") && Contains("entered by rank 2; not by rank 3"));
  CHECK_THAT(cause.details.at(0), Contains("rank 3 on n1 (pid 77)") && Contains("stopped"));
  // With no operation anywhere the rank itself is named.
  CHECK_THAT(first_cause({.job = &job, .failures = {stands}}).message,
             Contains("rank 0 on n0: step 12, forward head: the compute thread has not moved"));
}

TEST_CASE("a launcher that ends before any rank started is blamed on the argument it names", "[launch]") {
  const Job job = job_of(2);
  const auto ended = [&](std::vector<std::string> lines, std::vector<std::string> arguments,
                         LauncherVerdict verdict = {}) {
    return first_cause({.job = &job,
                        .verdict = std::move(verdict),
                        .child = {.exited = true, .code = 1},
                        .launcher_lines = std::move(lines),
                        .launcher_arguments = std::move(arguments),
                        .ranks_started = false});
  };
  const FirstCause option = ended({"mpirun: Error: unknown option \"--bogus\""}, {"--mca", "--bogus"});
  CHECK(option.kind == ErrorKind::usage);
  CHECK_THAT(option.message,
             Contains("--launcher-arg --bogus: ") && Contains("before any rank started") && Contains("unknown option"));
  CHECK_THAT(option.details.back(), Contains("what to do: correct or leave out --launcher-arg --bogus"));
  // Its words name none of them: all are shown. A known trouble of the machine is none of theirs.
  const FirstCause swallowed = ended({"-----", "", "unknown option \"--launch\""}, {"--mca", "x"});
  CHECK(swallowed.kind == ErrorKind::usage);
  CHECK_THAT(swallowed.message, Contains("--launcher-arg --mca --launcher-arg x: ") && Contains("\"--launch\""));
  CHECK(ended({"no slots"}, {"--verbose"}, {.launcher_problem = "There are not enough slots"}).kind ==
        ErrorKind::environment);
  const FirstCause ours = ended({"something"}, {});
  CHECK(ours.kind == ErrorKind::environment);
  CHECK_THAT(ours.message, Contains("something") && Contains("exit code 1"));
}

TEST_CASE("the advice depends on whether there is a checkpoint to continue from", "[launch]") {
  const Job job = job_of(2);
  const auto advice = [&](const char* kind, const char* checkpoint) {
    std::vector<UsableState> usable;
    if (*checkpoint != 0) usable.push_back({10, checkpoint});
    return first_cause({.job = &job, .failures = {failure(1, kind, 1)}, .usable = usable}).details.back();
  };
  for (const char* kind : {"numeric", "comm"}) {
    CHECK_THAT(advice(kind, "/runs/a/checkpoints/step-00000010"),
               Contains("--run-dir /runs/a to continue from /runs/a/checkpoints/step-00000010"));
    CHECK_THAT(advice(kind, ""), Contains("no usable checkpoint") && !Contains("to continue from"));
  }
}

TEST_CASE("the advice of the rank itself takes the place of the general one, wherever it stands", "[launch]") {
  const Job job = job_of(2);
  std::string text = "does not fit";
  for (int i = 0; i < 40; ++i) text += "\n  tensor " + std::to_string(i);
  text += "\nwhat to do: restore model.d_model to 128";
  const FirstCause cause = first_cause({.job = &job, .failures = {failure(1, "checkpoint", 1, text.c_str())}});
  CHECK(cause.details.back() == "what to do: restore model.d_model to 128");
  CHECK(std::count_if(cause.details.begin(), cause.details.end(),
                      [](const std::string& line) { return line.starts_with("what to do"); }) == 1);
}

TEST_CASE("what met no number is passed over, or gone back from, by commands that name the states", "[launch]") {
  const Job job = job_of(2);
  const auto details = [&job](std::vector<UsableState> usable, int64_t before) {
    std::string text;
    for (const std::string& line : first_cause({.job = &job,
                                   .failures = {failure(0, "numeric", 1)},
                                   .usable = std::move(usable),
                                   .numeric_before = before})
                                       .details)
      text += line + "\n";
    return text;
  };
  const std::string two = details({{10, "/runs/a/ten"}, {8, "/runs/a/eight"}, {6, "/runs/a/six"}}, 0);
  CHECK_THAT(two, Contains("the same command with --run-dir /runs/a --resume /runs/a/ten --skip-batches 2\n") &&
                      Contains("go back further: the same command with --run-dir /runs/a --resume /runs/a/eight "
                               "--skip-batches 4\n") &&
                      !Contains("six") && !Contains("attempt before"));
  CHECK_THAT(details({{10, "/runs/a/ten"}}, 11), !Contains("go back further: ") && !Contains("attempt before"));
  CHECK_THAT(details({{10, "/runs/a/ten"}}, 12),
             Contains("the attempt before this one ended at step 12 in the same way"));
  CHECK_THAT(details({}, 12), !Contains("--skip-batches") && Contains("starts again from step 1"));
}

TEST_CASE("what is to be passed over is counted in samples, whatever was passed over before", "[launch]") {
  Job job = job_of(1);
  job.recipe.runtime.global_batch_size = 4;
  const auto batches = [&job](int64_t next_sample, int64_t consumed) {
    RankFailure f = failure(0, "numeric", 1);
    f.next_sample = next_sample;
    for (const std::string& line :
         first_cause({.job = &job, .failures = {f}, .usable = {{10, "/runs/a/ten", consumed}}}).details)
      if (const size_t at = line.find("--skip-batches "); at != std::string::npos)
        return std::stoi(line.substr(at + 15));
    return -1;
  };
  CHECK(batches(48, 40) == 2);  // nothing was
  CHECK(batches(60, 40) == 5);  // three batches were
  CHECK(batches(58, 40) == 5);  // a batch that had another size: all of the step's samples
  CHECK(batches(-1, 40) == 2);  // not known: by steps
  CHECK(batches(48, -1) == 2);
}

TEST_CASE("who went on from a state that was named is told that, not that the run starts again", "[launch]") {
  Job job = job_of(1);
  job.resume = "/runs/b/step-00000007";
  const FirstCause cause = first_cause({.job = &job, .failures = {failure(0, "numeric", 1)}});
  CHECK_THAT(cause.details.back(), Contains("go on from /runs/b/step-00000007 again") && !Contains("from step 1"));
}

}  // namespace trainctl
