// apps/trainctl/cmd_schema.cpp -- `trainctl schema recipe|topology`: JSON Schemas, for editors and other validators.
#include <memory>

#include "base/config_io.h"
#include "cli.h"
#include "recipe/recipe.h"
#include "topology/topology_config.h"

namespace trainctl {

void add_schema_command(CLI::App& app) {
  auto which = std::make_shared<std::string>();
  CLI::App* cmd = app.add_subcommand("schema", "Print the JSON Schema (draft 2020-12) of a file");
  cmd->add_option("file", *which, "recipe or topology")->required()->check(CLI::IsMember({"recipe", "topology"}));
  add_examples(*cmd, {"trainctl schema recipe > recipe.schema.json"});
  cmd->callback(
      [which] { print_json(*which == "recipe" ? recipe_schema() : schema_of<TopologyConfig>("trainctl topology")); });
}

}  // namespace trainctl
