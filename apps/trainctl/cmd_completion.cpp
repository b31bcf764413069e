// apps/trainctl/cmd_completion.cpp -- `trainctl completion bash|zsh`: a completion script made from the command tree.
#include <memory>

#include "cli.h"

namespace trainctl {
namespace {

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) words += sub->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  if (!words.empty()) words.pop_back();
  return words;
}

// One case per command: the path of subcommands typed so far -> the words that may follow.
void add_cases(const CLI::App& app, const std::string& path, std::string& out) {
  out += "    \"" + path + "\") words=\"" + words_of(app) + "\" ;;\n";
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    add_cases(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
}

void add_paths(const CLI::App& app, const std::string& path, std::string& out) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string own = path.empty() ? sub->get_name() : path + " " + sub->get_name();
    out += (out.empty() ? "\"" : " | \"") + own + "\"";
    add_paths(*sub, own, out);
  }
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
  std::string paths, cases;
  add_paths(app, "", paths);
  add_cases(app, "", cases);
  std::string script = "# Completion of trainctl for " + std::string(shell) + ", from its command tree.\n";
  if (shell == "zsh") script += "autoload -U +X bashcompinit && bashcompinit\n";
  script +=
      "_trainctl() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" path=\"\" words=\"\" word i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=\"${path:+$path }${COMP_WORDS[i]}\"\n"
      "    case \"$word\" in\n"
      "      " +
      paths +
      ") path=\"$word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n" +
      cases +
      "  esac\n"
      "  case \"$current\" in\n"
      "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _trainctl trainctl\n";
  return script;
}

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* cmd = app.add_subcommand("completion", "Print a shell completion script");
  cmd->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  add_examples(*cmd, {"source <(trainctl completion bash)"});
  cmd->callback([&app, shell] { print_out(completion_script(app, *shell)); });
}

}  // namespace trainctl
