// tests/unit/recipe/training_rules_test.cpp -- rules of the name, the data, the optimizer and the run.
#include "recipe_test_support.h"

using namespace trainctl;

TEST_CASE("a name must be able to name a folder", "[recipe][training]") {
  CHECK(faults_of({"name=llama-8b.v2_x"}) == "");
  check_one_fault(faults_of({"name=a b/c"}), {"the nearest legal name is \"a_b_c\""});
  check_one_fault(faults_of({"name="}), {"1 to 100 letters"});
  check_one_fault(faults_of({"name=.."}), {"not starting with"});
  check_one_fault(faults_of({"name=" + std::string(101, 'a')}), {"1 to 100 letters"});
}

TEST_CASE("evaluation without anything to evaluate on is refused", "[recipe][training]") {
  CHECK(faults_of({"runtime.eval_every_steps=5"}) == "");
  check_one_fault(faults_of({"runtime.eval_every_steps=5", "data.validation_fraction=0"}),
                  {"runtime.eval_every_steps: 5 asks for evaluations, but data.validation_fraction is 0"});
  check_one_fault(faults_of({"data.validation_fraction=1"}), {"1 must be in [0, 1)"});
  check_one_fault(faults_of({"data.validation_fraction=-0.1"}), {"must be in [0, 1)"});
}

TEST_CASE("the warm-up and the decay fit into the steps", "[recipe][training]") {
  CHECK(faults_of({"optimizer.schedule.warmup_steps=200"}) == "");
  check_one_fault(faults_of({"optimizer.schedule.warmup_steps=201"}),
                  {"201 is more than runtime.steps 200", "the nearest legal value is 200"});
  check_one_fault(faults_of({"optimizer.schedule.decay_steps=10"}), {"10 is less than warmup_steps 20"});
  check_one_fault(faults_of({"optimizer.schedule.kind=wsd"}), {"0 must be in [1, 180] for \"wsd\"", "here 20"});
  CHECK(faults_of({"optimizer.schedule.kind=wsd", "optimizer.schedule.decay_steps=180"}) == "");
  check_one_fault(faults_of({"optimizer.schedule.kind=wsd", "optimizer.schedule.decay_steps=181"}), {"181 must be in"});
}

TEST_CASE("optimizer numbers stay in their ranges", "[recipe][training]") {
  check_one_fault(faults_of({"optimizer.lr=0"}), {"optimizer.lr: 0 must be > 0"});
  check_one_fault(faults_of({"optimizer.betas=[0.9,1]"}), {"optimizer.betas[1]: 1 must be in [0, 1)"});
  check_one_fault(faults_of({"optimizer.momentum=0.9"}), {"has no effect with kind \"adamw\""});
  CHECK(faults_of({"optimizer.momentum=0.9", "optimizer.kind=sgd"}) == "");
  check_one_fault(faults_of({"optimizer.weight_decay=-1"}), {"must be >= 0"});
}

TEST_CASE("at least one source of data with a path is needed", "[recipe][training]") {
  check_one_fault(faults_of({"data.train=[]"}), {"data.train: is empty"});
  check_one_fault(faults_of({"data.train[0].path="}), {"data.train[0].path: is empty"});
  check_one_fault(faults_of({"data.train[1].weight=2"}), {"data.train[1].path: required key \"path\" is missing"});
  check_one_fault(faults_of({"data.train[0].weight=0"}), {"data.train[0].weight: 0 must be > 0"});
  CHECK(faults_of({"data.document_mask=true", "data.reset_positions=true"}) == "");
  for (const char* choice : {"refuse", "continue", "restart"})
    CHECK(faults_of({std::string("data.on_change=") + choice}) == "");
  check_one_fault(faults_of({"data.on_change=contnue"}), {"data.on_change: \"contnue\"", "did you mean \"continue\""});
}
