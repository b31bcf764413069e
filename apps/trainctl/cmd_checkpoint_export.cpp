// apps/trainctl/cmd_checkpoint_export.cpp -- `trainctl checkpoint export --to hf`.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "cli.h"
#include "interop/checkpoint_model.h"
#include "interop/hf_export.h"
#include "transfer_bar.h"

namespace trainctl {
namespace {

using nlohmann::ordered_json;

struct ExportOptions {
  std::string path, to, output, dtype = "f32";
  std::optional<int64_t> step;
  int64_t max_shard_bytes = HfExportOptions{}.max_shard_bytes;
  bool json = false;
};

void run_export(const ExportOptions& o) {
  HfExportOptions options;
  options.dtype = dtype_from_name(o.dtype);
  options.max_shard_bytes = o.max_shard_bytes;
  options.progress = transfer_bar("exporting");
  const HfExportReport r = export_hf(choose_exportable(o.path, o.step), o.output, options);
  if (o.json)
    return print_json({{"output", r.output.string()},
                       {"checkpoint", r.checkpoint.string()},
                       {"step", r.step},
                       {"manifest_sha256", r.manifest_sha256},
                       {"to", o.to},
                       {"family", r.family},
                       {"dtype", o.dtype},
                       {"tensors", r.tensors},
                       {"parameters", r.parameters},
                       {"bytes", r.bytes},
                       {"files", r.files},
                       {"notes", r.notes}});
  print_out(fmt::format("{}: {} model of step {}, {}, {} in {}, {}\n", r.output.string(), r.family, r.step,
                        counted(r.tensors, "tensor"), human_bytes(r.bytes), o.dtype,
                        counted(std::ssize(r.files), "file")));
  for (const std::string& note : r.notes) print_out("note: " + note + "\n");
}

}  // namespace

void add_checkpoint_export_command(CLI::App& group) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* cmd = group.add_subcommand(
      "export",
      "Write the weights as a folder that Hugging Face transformers loads (gpt2, llama, qwen2, qwen3).\n"
      "The folder appears whole or not at all; an earlier export is replaced, anything else is left alone.");
  cmd->add_option("path", options->path, "Run directory, checkpoints folder or checkpoint")->required();
  cmd->add_option("--to", options->to, "Format: hf")->required()->check(CLI::IsMember({"hf"}));
  cmd->add_option("--output,--out", options->output, "Folder to write")->required();
  cmd->add_option("--step", options->step, "Which one of a run; without it the newest usable one")
      ->check(whole_number(0));
  cmd->add_option("--dtype", options->dtype, "f32 (default) or bf16, rounded to nearest even")
      ->check(CLI::IsMember({"f32", "bf16"}));
  cmd->add_option("--max-shard-bytes", options->max_shard_bytes,
                  "Tensor bytes per file; more become several files with an index. Default 5 GB")
      ->check(whole_number(1));
  cmd->add_flag("--json", options->json, "Machine-readable output");
  cmd->callback([options] { run_export(*options); });
  add_examples(*cmd,
               {"trainctl checkpoint export runs/llama_tiny_text/1 --to hf --output exported",
                "trainctl checkpoint export run/checkpoints/step-00000200 --to hf --output exported --dtype bf16"});
}

}  // namespace trainctl
