// apps/trainctl/cmd_checkpoint_export.cpp -- `trainctl checkpoint export --to hf | gguf`.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint_cli.h"
#include "cli.h"
#include "interop/checkpoint_model.h"
#include "interop/gguf_export.h"
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

void report_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print_out("note: " + note + "\n");
}

void to_hf(const ExportOptions& o) {
  if (o.dtype != "f32" && o.dtype != "bf16")
    fail(ErrorKind::usage, fmt::format("--dtype {} is not one of f32, bf16, which --to hf has", o.dtype));
  HfExportOptions options;
  options.dtype = dtype_from_name(o.dtype);
  options.max_shard_bytes = o.max_shard_bytes;
  options.progress = transfer_bar("exporting");
  const std::filesystem::path folder = chosen_checkpoint(o.path, o.step, unless_exportable);
  const HfExportReport r = while_there({folder}, [&] { return export_hf(folder, o.output, options); });
  if (o.json)
    return print_json({{"output", r.output.string()},
                       {"checkpoint", r.checkpoint.string()},
                       {"step", r.step},
                       {"manifest_sha256", r.manifest_sha256},
                       {"to", o.to},
                       {"family", r.family},
                       {"dtype", o.dtype},
                       {"weights_from", r.source},
                       {"tensors", r.tensors},
                       {"parameters", r.parameters},
                       {"bytes", r.bytes},
                       {"files", r.files},
                       {"notes", r.notes}});
  print_out(fmt::format("{}: {} model of step {}, {}, {} in {}, {}, {}\n", r.output.string(), r.family, r.step,
                        counted(r.tensors, "tensor"), human_bytes(r.bytes), o.dtype, source_text(r.source),
                        counted(std::ssize(r.files), "file")));
  report_notes(r.notes);
}

void to_gguf(const ExportOptions& o) {
  const std::map<std::string, GgufType> types = {
      {"f32", GgufType::f32}, {"f16", GgufType::f16}, {"bf16", GgufType::bf16}, {"q8_0", GgufType::q8_0}};
  GgufExportOptions options;
  options.type = types.at(o.dtype);
  options.progress = transfer_bar("exporting");
  const std::filesystem::path folder = chosen_checkpoint(o.path, o.step, unless_exportable);
  const GgufExportReport r = while_there({folder}, [&] { return export_gguf(folder, o.output, options); });
  if (o.json)
    return print_json({{"output", r.output.string()},
                       {"checkpoint", r.checkpoint.string()},
                       {"step", r.step},
                       {"manifest_sha256", r.manifest_sha256},
                       {"to", o.to},
                       {"family", r.family},
                       {"dtype", o.dtype},
                       {"weights_from", r.source},
                       {"tensors", r.tensors},
                       {"parameters", r.parameters},
                       {"bytes", r.bytes},
                       {"notes", r.notes}});
  print_out(fmt::format("{}: {} model of step {}, {}, {} in {}, {}\n", r.output.string(), r.family, r.step,
                        counted(r.tensors, "tensor"), human_bytes(r.bytes), o.dtype, source_text(r.source)));
  report_notes(r.notes);
}

}  // namespace

void add_checkpoint_export_command(CLI::App& group) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* cmd = group.add_subcommand(
      "export",
      "Write the weights for another program (gpt2, llama, qwen2, qwen3): hf is a folder that Hugging Face\n"
      "transformers loads, gguf a file that llama.cpp loads. Each weight is its f32 master where the checkpoint\n"
      "has one (a run in bf16), else what is stored. The output appears whole or not at all; an earlier export is\n"
      "replaced, anything else is left alone.");
  cmd->add_option("path", options->path, "Run directory, checkpoints folder or checkpoint")->required();
  cmd->add_option("--to", options->to, "Format: hf or gguf")->required()->check(CLI::IsMember({"hf", "gguf"}));
  cmd->add_option("--output,--out", options->output, "Folder (hf) or file (gguf) to write")->required();
  cmd->add_option("--step", options->step, "Which one of a run; without it the newest usable one")
      ->transform(whole_number(0));
  cmd->add_option(
         "--dtype", options->dtype,
         "f32 (default), which keeps every bit, or bf16, rounded to nearest even: what a bf16 run computes with; "
         "gguf also: f16, q8_0")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "q8_0"}));
  CLI::Option* shards =
      cmd->add_option("--max-shard-bytes", options->max_shard_bytes,
                      "hf: tensor bytes per file; more become several files with an index. Default 5 GB")
          ->transform(whole_number(1));
  cmd->add_flag("--json", options->json, "Machine-readable output");
  cmd->callback([options, shards] {
    if (options->to == "gguf" && shards->count() > 0)
      fail(ErrorKind::usage, "--max-shard-bytes does not go with --to gguf, which is one file; leave it out");
    options->to == "hf" ? to_hf(*options) : to_gguf(*options);
  });
  add_examples(*cmd, {"trainctl checkpoint export runs/llama_tiny_text/1 --to hf --output exported",
                      "trainctl checkpoint export run/checkpoints/step-00000200 --to hf --output exported --dtype bf16",
                      "trainctl checkpoint export runs/llama_tiny_text/1 --to gguf --output model.gguf --dtype q8_0"});
}

}  // namespace trainctl
