// tests/fault/checkpoint/trace.cpp -- reading strace's log.
#include "fault/checkpoint/trace.h"

#include <charconv>
#include <map>

#include "support/subprocess.h"

namespace trainctl::testing {
namespace {

// "1234 rest" -> 1234; `line` becomes the rest.
int64_t take_thread(std::string_view& line) {
  int64_t thread = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), thread);
  line.remove_prefix(static_cast<size_t>(read.ptr - line.data()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return thread;
}

// "arguments) = result" -> both parts.
void split_result(std::string_view text, TracedCall& call) {
  const size_t at = text.rfind(") ");
  const size_t equals = at == std::string_view::npos ? at : text.find("= ", at);
  call.arguments += text.substr(0, at);
  call.result = equals == std::string_view::npos ? "?" : text.substr(equals + 2);
}

}  // namespace

std::vector<TracedCall> parse_trace(std::string_view log) {
  std::vector<TracedCall> calls;
  std::map<std::pair<int64_t, std::string>, int64_t> count;
  std::map<int64_t, size_t> open;  // thread -> its unfinished call
  size_t line_number = 0;
  for (size_t begin = 0; begin < log.size(); ++line_number) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    const int64_t thread = take_thread(line);
    if (line.starts_with("<... ")) {
      const size_t rest = line.find(" resumed>");
      if (rest == std::string_view::npos || open.count(thread) == 0) continue;
      TracedCall& call = calls[open[thread]];
      split_result(line.substr(rest + 9), call);
      call.left = line_number;
      open.erase(thread);
      continue;
    }
    const size_t bracket = line.find('(');
    if (line.starts_with("+++") || line.starts_with("---") || bracket == std::string_view::npos) continue;
    TracedCall call;
    call.thread = thread;
    call.name = line.substr(0, bracket);
    call.number = ++count[{thread, call.name}];
    call.entered = call.left = line_number;
    std::string_view rest = line.substr(bracket + 1);
    if (const size_t cut = rest.find(" <unfinished ...>"); cut != std::string_view::npos) {
      call.arguments = rest.substr(0, cut);
      call.result = "?";
      open[thread] = calls.size();
    } else {
      split_result(rest, call);
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

std::string unescape_hex(std::string_view arguments, size_t from, size_t* end) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string text;
  size_t at = arguments.find('"', from);
  if (at != std::string_view::npos)
    for (++at; at + 3 < arguments.size() && arguments[at] == '\\'; at += 4)
      text += static_cast<char>(digit(arguments[at + 2]) * 16 + digit(arguments[at + 3]));
  if (end) *end = at;
  return text;
}

std::string tracing_refusal() {
  const std::vector<std::string> inject = {"-o",          "/dev/null", "-e",
                                           "trace=close", "-e",        "inject=close:signal=KILL:when=1"};
  const SubprocessResult tried = run(traced(inject, {"true"}));
  if (tried.exit_code == 128 + 9) return "";
  if (tried.exit_code == 127) return "strace is not installed (scripts/dev setup does)";
  return "processes cannot be traced here (ptrace): " + tried.err.substr(0, tried.err.find('\n'));
}

std::vector<std::string> traced(std::vector<std::string> options, const std::vector<std::string>& command) {
  std::vector<std::string> all = {"strace", "-f", "-qq"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace trainctl::testing
