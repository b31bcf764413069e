// apps/trainctl/cmd_checkpoint_import.cpp -- `trainctl checkpoint import --from hf`.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/build_info.h"
#include "base/units.h"
#include "cli.h"
#include "interop/hf_import.h"
#include "transfer_bar.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

struct ImportOptions {
  std::string source, from, output;
  std::vector<std::string> harmless;
  bool json = false;
};

std::filesystem::path default_output(const std::string& source) {
  const std::filesystem::path folder = std::filesystem::absolute(source).lexically_normal();
  return std::filesystem::path("imported") / (folder.has_filename() ? folder : folder.parent_path()).filename();
}

void run_import(const ImportOptions& o) {
  const std::filesystem::path output = o.output.empty() ? default_output(o.source) : std::filesystem::path(o.output);
  const HfImportReport r =
      import_hf(o.source, output,
                {.build = std::string(build_id()), .harmless = o.harmless, .progress = transfer_bar("importing")});
  if (o.json)
    return print_json({{"output", r.output.string()},
                       {"source", r.source.string()},
                       {"manifest_sha256", r.manifest_sha256},
                       {"from", o.from},
                       {"family", r.family},
                       {"tensors", r.tensors},
                       {"parameters", r.parameters},
                       {"bytes", r.bytes},
                       {"files_compared", r.compared},
                       {"tokenizer", r.tokenizer},
                       {"recipe", ordered_json::parse(r.recipe_model)},
                       {"notes", r.notes}});
  print_out(fmt::format("{}: portable checkpoint of a {} model, {} parameters in {} tensors, {}\n", r.output.string(),
                        r.family, human_count(static_cast<double>(r.parameters)), r.tensors, human_bytes(r.bytes)));
  if (r.compared > 0)
    print_out(fmt::format("{} of {} compared with the digests of trainctl_export.json\n", counted(r.compared, "file"),
                          r.source.string()));
  for (const std::string& note : r.notes) print_out("note: " + note + "\n");
  print_out(fmt::format("The section of a recipe that trains it (also in {}):\n{}",
                        (r.output / "meta" / "recipe-model.json").string(), r.recipe_model));
  print_out(fmt::format("Train from it: trainctl launch RECIPE --init-from {}\n", r.output.string()));
}

}  // namespace

void add_checkpoint_import_command(CLI::App& group) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* cmd = group.add_subcommand(
      "import",
      "Make a portable checkpoint of the weights of a Hugging Face folder (gpt2, llama, qwen2, qwen3).\n"
      "f32 and bf16 are kept bit for bit, f16 becomes f32, which is exact. Everything is checked before anything is\n"
      "written; the checkpoint is committed last and read back. An export of trainctl is first compared with the\n"
      "digests in its trainctl_export.json.");
  cmd->add_option("source", options->source, "Folder with config.json and model.safetensors or its index")->required();
  cmd->add_option("--from", options->from, "Format: hf")->required()->check(CLI::IsMember({"hf"}));
  cmd->add_option("--output,--out", options->output, "Checkpoint folder to make; default: imported/NAME");
  cmd->add_option("--harmless", options->harmless,
                  "A field of config.json that this version does not know and no result depends on; may be repeated")
      ->option_text("NAME")
      ->allow_extra_args(false)
      ->take_all();
  cmd->add_flag("--json", options->json, "Machine-readable output");
  cmd->callback([options] { run_import(*options); });
  add_examples(*cmd, {"trainctl checkpoint import --from hf downloads/llama --output base",
                      "trainctl launch recipe.json --init-from base"});
}

}  // namespace trainctl
