// apps/trainctl/cli.cpp -- output conventions, and what a wrong command line is told.
#include "cli.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json_node.h"

namespace trainctl {
namespace {

// The subcommand the line had reached when parsing stopped.
const CLI::App& deepest(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : deepest(*chosen.back());
}

std::string full_name(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() == nullptr ? own : full_name(*app.get_parent()) + " " + own;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

void add_examples(CLI::App& command, const std::vector<std::string>& lines) {
  std::string text = lines.size() == 1 ? "Example:" : "Examples:";
  for (const std::string& line : lines) text += "\n  " + line;
  command.footer(text);
}

void add_override_option(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "Override a recipe value: section.key=value; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool beyond = error == std::errc::result_out_of_range && stop == end;
    if (!beyond && (error != std::errc() || stop != end))
      return in_quotes(text) + " is no whole number; legal: " + std::to_string(least) +
             (most == INT64_MAX ? " or more" : " to " + std::to_string(most));
    const bool low = beyond ? text.starts_with('-') : value < least;
    if (low) return text + " is too small; the least is " + std::to_string(least);
    if (beyond || value > most) return text + " is too large; the most is " + std::to_string(most);
    text =
        std::to_string(value);  // CLI11 would take leading zeros, as in the names of checkpoints, for an octal number
    return "";
  };
  return CLI::Validator(check, least == 0 ? "" : ">= " + std::to_string(least));
}

void refuse_empty_values(CLI::App& app) {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "the value is empty; leave the option out, or give one (is a shell variable unset?)" : "";
  };
  for (CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_items_expected_max() > 0; }))
    option->check(CLI::Validator(check, ""));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

bool use_colour(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(file_descriptor) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Names of files may hold any byte; JSON may not.
void print_json(const nlohmann::ordered_json& value) {
  print_out(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void print_error(std::string_view kind, std::string_view message) {
  const bool colour = use_colour(STDERR_FILENO);
  std::string text = colour ? "\033[1;31mtrainctl: " : "trainctl: ";
  text += kind;
  text += colour ? ":\033[0m " : ": ";
  text += message;
  if (!text.ends_with('\n')) text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) print_error("warning", warning);
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = deepest(app);
  const std::string help = "; " + full_name(at) + " --help lists what is legal";
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {
    const std::string& word = extras.front();
    const bool is_option = word.starts_with("-");
    const std::vector<std::string> subcommands = subcommand_names(at);
    if (is_option || !subcommands.empty()) {
      const std::vector<std::string> legal = is_option ? option_names(at) : subcommands;
      const std::string close = nearest(word.substr(0, word.find('=')), legal);
      std::string text = full_name(at) + " has no " + (is_option ? "option " : "command ") + in_quotes(word);
      if (!close.empty()) text += "; did you mean " + close + "?";
      if (!is_option && close.empty()) text += "; commands: " + joined(legal);
      return text + help;
    }
    return full_name(at) + ": one argument too many: " + in_quotes(word) + help;
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !subcommand_names(at).empty())
    return full_name(at) + " needs a command: " + joined(subcommand_names(at)) + help;
  return full_name(at) + ": " + error.what() + help;
}

}  // namespace trainctl
