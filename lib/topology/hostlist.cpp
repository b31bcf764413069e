// lib/topology/hostlist.cpp -- parsing with a bound on the result, so that no input can exhaust memory.
#include "topology/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace trainctl {
namespace {

constexpr size_t kMaxDigits = 18;      // every number of 18 digits fits an int64_t
constexpr size_t kMaxNameChars = 253;  // of a DNS name

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_host_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

// `list` as it may be quoted in a message: bounded, and without control characters.
std::string quoted(std::string_view list) {
  std::string text;
  for (const char c : list.substr(0, 80)) text += c >= ' ' && c <= '~' ? c : '?';
  return "\"" + text + (list.size() > 80 ? "...\"" : "\"");
}

[[noreturn]] void refuse(std::string_view list, const std::string& what) {
  fail(ErrorKind::config, fmt::format("host list {}: {}; write names like \"host\" or ranges like \"n[001-128,200]\"",
                                      quoted(list), what));
}

struct Range {
  int64_t first = 0, last = 0;
  size_t width = 1;
};

int64_t parse_number(std::string_view list, std::string_view digits) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit))
    refuse(list, fmt::format("{} in brackets is no number", quoted(digits)));
  if (digits.size() > kMaxDigits) refuse(list, fmt::format("{} has more than {} digits", quoted(digits), kMaxDigits));
  return std::stoll(std::string(digits));
}

Range parse_range(std::string_view list, std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  const Range range{parse_number(list, first), parse_number(list, last), first.size()};
  if (range.last < range.first) refuse(list, fmt::format("the range {} descends", quoted(text)));
  return range;
}

// The names of all of `stems` followed by every number of `ranges`.
std::vector<std::string> append_ranges(std::string_view list, const std::vector<std::string>& stems,
                                       const std::vector<Range>& ranges) {
  uint64_t numbers = 0;
  for (const Range& r : ranges) {
    numbers += static_cast<uint64_t>(r.last - r.first) + 1;  // each below 10^18: checked before it can overflow
    if (numbers > kMaxHosts || numbers * stems.size() > kMaxHosts)
      refuse(list, fmt::format("it names more than {} hosts", kMaxHosts));
  }
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(numbers) * stems.size());
  for (const std::string& stem : stems)
    for (const Range& r : ranges)
      for (int64_t n = r.first; n <= r.last; ++n) names.push_back(fmt::format("{}{:0{}}", stem, n, r.width));
  return names;
}

// A name cut before its trailing number; width 0 when it has none that a range could count.
struct Numbered {
  std::string_view stem;
  int64_t number = 0;
  size_t width = 0;
};

Numbered split_number(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  const size_t width = name.size() - begin;
  if (width == 0 || width > kMaxDigits) return {name, 0, 0};
  return {name.substr(0, begin), std::stoll(std::string(name.substr(begin))), width};
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) {
  std::vector<std::string> hosts;
  if (list.empty()) refuse(list, "it is empty");
  for (size_t at = 0; at <= list.size();) {
    std::vector<std::string> names{""};
    while (at < list.size() && list[at] != ',') {
      if (names.back().size() >= kMaxNameChars)
        refuse(list, fmt::format("a name is longer than {} characters", kMaxNameChars));
      if (is_host_char(list[at])) {
        for (std::string& name : names) name += list[at];
        ++at;
        continue;
      }
      if (list[at] != '[')
        refuse(list, fmt::format("unexpected {} at position {}", quoted(list.substr(at, 1)), at + 1));
      const size_t close = list.find(']', at);
      if (close == std::string_view::npos) refuse(list, "a '[' is not closed");
      std::vector<Range> ranges;
      for (size_t begin = at + 1; begin <= close;) {
        const size_t end = std::min(list.find(',', begin), close);
        ranges.push_back(parse_range(list, list.substr(begin, end - begin)));
        begin = end + 1;
      }
      names = append_ranges(list, names, ranges);
      at = close + 1;
    }
    if (names.front().empty()) refuse(list, fmt::format("an empty name at position {}", at + 1));
    if (hosts.size() + names.size() > kMaxHosts) refuse(list, fmt::format("it names more than {} hosts", kMaxHosts));
    hosts.insert(hosts.end(), names.begin(), names.end());
    ++at;  // past the comma, or past the end
  }
  return hosts;
}

std::string compress_hostlist(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size();) {
    const Numbered first = split_number(names[i]);
    if (!list.empty()) list += ',';
    if (first.width == 0) {
      list += names[i++];
      continue;
    }
    // All following names with this stem share the bracket; consecutive numbers share a range while the padding of the
    // range's first number reproduces them.
    std::string inside;
    size_t ranges = 0;
    size_t j = i;
    while (j < names.size()) {
      const Numbered begin = split_number(names[j]);
      if (begin.width == 0 || begin.stem != first.stem) break;
      size_t end = j;
      while (end + 1 < names.size() && split_number(names[end + 1]).width != 0 &&
             names[end + 1] ==
                 fmt::format("{}{:0{}}", begin.stem, begin.number + static_cast<int64_t>(end + 1 - j), begin.width))
        ++end;
      if (!inside.empty()) inside += ',';
      inside += names[j].substr(begin.stem.size());
      if (end > j) inside += "-" + names[end].substr(begin.stem.size());
      ++ranges;
      j = end + 1;
    }
    list += ranges == 1 && inside.find('-') == std::string::npos ? names[i] : fmt::format("{}[{}]", first.stem, inside);
    i = j;
  }
  return list;
}

}  // namespace trainctl
