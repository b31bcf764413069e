// apps/trainctl/main.cpp -- the command line: subcommands in, exit code out.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/build_info.h"
#include "base/error.h"
#include "base/file_error.h"
#include "cli.h"

namespace trainctl {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Trains language models on many ranks: check and plan a recipe, prepare data, launch, look at results.",
               "trainctl");
  app.set_version_flag("--version",
                       std::string("trainctl ") + std::string(version()) + " (build " + std::string(build_id()) + ")");
  app.require_subcommand(1);
  app.option_defaults()->take_last();  // of an option given twice; lists say take_all
  app.get_formatter()->column_width(34);
  for (const auto& add :
       {add_check_command, add_plan_command, add_launch_command, add_data_command, add_checkpoint_command,
        add_accept_command, add_topology_command, add_schema_command, add_completion_command})
    add(app);
  refuse_empty_values(app);
  add_examples(app, {"trainctl check recipes/llama_tiny_text.json",
                     "trainctl launch recipes/llama_tiny_text.json --ranks 4", "trainctl COMMAND --help"});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    print_error(name(ErrorKind::usage), describe_parse_error(app, e));
    return exit_code(ErrorKind::usage);
  }
  return 0;
}

int report(const Error& e) {
  std::fflush(stdout);
  std::string text = e.what();
  if (e.kind() == ErrorKind::internal) text += " (at " + e.site() + "; this is a bug of trainctl)";
  print_error(name(e.kind()), text);
  return exit_code(e.kind());
}

int main_guarded(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      fail(ErrorKind::environment, "the output could not be written (is the disk full, or the reader gone?)");
    return code;
  } catch (const ExitWith& e) {
    std::fflush(stdout);
    return e.code;
  } catch (const Error& e) {
    return report(e);
  } catch (const std::filesystem::filesystem_error& e) {
    return report(file_error(e));
  } catch (const std::exception& e) {
    print_error(name(ErrorKind::internal), e.what());
    return exit_code(ErrorKind::internal);
  }
}

}  // namespace
}  // namespace trainctl

int main(int argc, char** argv) { return trainctl::main_guarded(argc, argv); }
