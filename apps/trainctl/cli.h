// apps/trainctl/cli.h -- what the subcommands share: one add function each, exits, output conventions.
//
// Results go to stdout, diagnostics and progress to stderr. Exit codes: 0 done, 2 the request is wrong, 3 the
// environment is wrong, 4 a rank failed, 5 no usable checkpoint, 75 stopped on a signal after a complete save.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

// Thrown by a command that has said everything itself.
struct ExitWith {
  int code = 0;
};

void add_accept_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_checkpoint_command(CLI::App& app);
void add_checkpoint_export_command(CLI::App& group);  // below `checkpoint`
void add_checkpoint_import_command(CLI::App& group);
void add_completion_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_launch_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_schema_command(CLI::App& app);
void add_topology_command(CLI::App& app);

// The footer of --help: "Example:" and the lines, indented.
void add_examples(CLI::App& command, const std::vector<std::string>& lines);
// --set, for commands that read a recipe.
void add_override_option(CLI::App& command, std::vector<std::string>& overrides);

// For integer options, given to transform(): least <= value <= most, told in words ("0 is too small; the least is 1"),
// in decimal digits, whatever zeros lead.
CLI::Validator whole_number(int64_t least, int64_t most = INT64_MAX);
// Of `app` and all its subcommands: options and arguments that take a value refuse an empty one. "" is what an unset
// shell variable leaves behind, and must not be taken for "not given".
void refuse_empty_values(CLI::App& app);

bool use_colour(int file_descriptor);   // a terminal, and NO_COLOR is not set
void print_out(std::string_view text);  // to stdout, whole
void print_json(const nlohmann::ordered_json& value);
void print_error(std::string_view kind, std::string_view message);  // "trainctl: <kind>: <message>" to stderr
void print_warnings(const std::vector<std::string>& warnings);      // "trainctl: warning: ..." to stderr

// What a parse error should say: CLI11's message, or the unknown word with the nearest legal one.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);
// The script that completes subcommands, options and their choices in `shell` (bash | zsh).
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace trainctl
