// apps/trainctl/commands.h -- registers every subcommand; the definition is generated from the list in CMakeLists.txt.
#pragma once

#include "cli.h"

namespace trainctl {

void add_commands(CLI::App& app);

}  // namespace trainctl
