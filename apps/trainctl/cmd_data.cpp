// apps/trainctl/cmd_data.cpp -- `trainctl data prepare|inspect`: text or JSONL to token files, and a look inside them.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "cli.h"
#include "data/inspect.h"
#include "data/prepare.h"

namespace trainctl {
namespace {

struct PrepareArguments {
  std::vector<std::string> inputs;
  std::string output, format = "auto", split = "blank-lines", text_key = "text", tokenizer = "bytes";
  bool no_end = false, force = false, json = false;
};

// One line on a terminal, overwritten; nothing elsewhere.
std::function<void(const PrepareProgress&)> progress_line(bool terminal) {
  if (!terminal) return {};
  return [](const PrepareProgress& p) {
    fmt::print(stderr, "\r{} of {} read, {}, {}\033[K", human_bytes(p.bytes_done), human_bytes(p.bytes_total),
               counted(p.documents, "document"), counted(p.tokens, "token"));
  };
}

void prepare(const PrepareArguments& arguments) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer({.kind = arguments.tokenizer});
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  PrepareOptions options;
  options.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  options.output = arguments.output;
  options.force_format = arguments.format != "auto";
  options.format = arguments.format == "jsonl" ? InputFormat::jsonl : InputFormat::text;
  options.split = text_split_from_name(arguments.split);
  options.overwrite = arguments.force;
  options.text_key = arguments.text_key;
  options.append_end_of_document = !arguments.no_end;
  options.progress = progress_line(terminal);
  const auto begin = std::chrono::steady_clock::now();
  const PrepareStatistics s = prepare_tokens(options, *tokenizer);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (arguments.json) {
    print_json({{"bin", s.written.bin.string()},
                {"idx", s.written.idx.string()},
                {"replaced", s.replaced},
                {"created_folder", s.created_folder.string()},
                {"dtype", name(s.dtype)},
                {"files", s.files},
                {"documents", s.documents},
                {"empty_documents", s.empty_documents},
                {"tokens", s.tokens},
                {"text_bytes", s.bytes},
                {"input_bytes", s.input_bytes},
                {"seconds", seconds}});
    return;
  }
  print_out(fmt::format("{}, {} ({}) from {} in {} of {}\n", counted(s.documents, "document"),
                        counted(s.tokens, "token"), name(s.dtype), human_bytes(s.bytes), counted(s.files, "file"),
                        human_bytes(s.input_bytes)));
  if (s.empty_documents > 0) print_out(counted(s.empty_documents, "empty document") + " skipped\n");
  if (!s.created_folder.empty()) print_out(fmt::format("made the folder {}\n", s.created_folder.string()));
  const char* verb = s.replaced ? "replaced" : "wrote";
  print_out(fmt::format("{} {}\n{} {}\n", verb, s.written.bin.string(), verb, s.written.idx.string()));
}

struct InspectArguments {
  std::string prefix, tokenizer = "bytes";
  std::optional<int64_t> document;
  int64_t max_tokens = 0, top = 10;
  bool ids = false, json = false;
};

void inspect(const InspectArguments& arguments) {
  const IndexedTokens file(arguments.prefix);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer({.kind = arguments.tokenizer});
  if (!arguments.document) {
    const TokenSummary summary = summarize(file, arguments.top);
    if (arguments.json)
      print_json(to_json(summary));
    else
      print_out(to_text(summary, tokenizer.get()));
    return;
  }
  const int64_t number = *arguments.document;
  if (arguments.json || arguments.ids) {
    const std::vector<int64_t> ids = document_ids(file, number, arguments.max_tokens);
    if (arguments.json) {
      // Text of arbitrary bytes may not be UTF-8; the ids are exact, the text then has replacement characters.
      const nlohmann::ordered_json value = {
          {"document", number}, {"ids", ids}, {"text", document_text(file, number, *tokenizer, arguments.max_tokens)}};
      print_out(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    } else {
      print_out(fmt::format("{}\n", fmt::join(ids, " ")));
    }
    return;
  }
  print_out(document_text(file, number, *tokenizer, arguments.max_tokens) + "\n");
}

void add_prepare(CLI::App& data) {
  auto a = std::make_shared<PrepareArguments>();
  CLI::App* cmd = data.add_subcommand("prepare", "Turn text or JSONL files into token files (PREFIX.bin, PREFIX.idx)");
  cmd->add_option("inputs", a->inputs, "Input files, in order; .jsonl, .ndjson and .json are JSONL, others text")
      ->required()
      ->take_all();
  cmd->add_option("-o,--output", a->output, "PREFIX of the token files")->required();
  cmd->add_option("--format", a->format, "auto, text or jsonl")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  cmd->add_option("--split", a->split, "Text: where documents end")
      ->check(CLI::IsMember({"none", "blank-lines", "lines"}))
      ->capture_default_str();
  cmd->add_option("--text-key", a->text_key, "JSONL: the member that holds the document")->capture_default_str();
  cmd->add_option("--tokenizer", a->tokenizer, "Tokenizer kind")->capture_default_str();
  cmd->add_flag("--no-end-of-document", a->no_end, "Write no end-of-document id after each document");
  cmd->add_flag("--force", a->force, "Replace token files that are there already");
  cmd->add_flag("--json", a->json, "Machine-readable output");
  add_examples(*cmd, {"trainctl data prepare book.txt --output data/book",
                      "trainctl data prepare part1.jsonl part2.jsonl --text-key body --output data/web"});
  cmd->callback([a] { prepare(*a); });
}

void add_inspect(CLI::App& data) {
  auto a = std::make_shared<InspectArguments>();
  CLI::App* cmd = data.add_subcommand("inspect", "Look inside token files: sizes, id statistics, single documents");
  cmd->add_option("prefix", a->prefix, "PREFIX, PREFIX.bin or PREFIX.idx")->required();
  cmd->add_option("--document", a->document, "Print this document (from 0) as text")->transform(whole_number(0));
  cmd->add_option("--max-tokens", a->max_tokens, "At most so many tokens of it; 0: all")->transform(whole_number(0));
  cmd->add_flag("--ids", a->ids, "Print ids instead of text");
  cmd->add_option("--top", a->top, "How many of the most frequent ids to list")
      ->transform(whole_number(0))
      ->capture_default_str();
  cmd->add_option("--tokenizer", a->tokenizer, "Tokenizer kind")->capture_default_str();
  cmd->add_flag("--json", a->json, "Machine-readable output");
  add_examples(*cmd,
               {"trainctl data inspect data/book", "trainctl data inspect data/book --document 3 --max-tokens 80"});
  cmd->callback([a] { inspect(*a); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Prepare and inspect token files");
  data->require_subcommand(1);
  add_prepare(*data);
  add_inspect(*data);
  add_examples(*data, {"trainctl data prepare book.txt --output data/book", "trainctl data inspect data/book"});
}

}  // namespace trainctl
