// lib/base/faults.cpp -- lists of faults as text, and the nearest of several names.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

// '-', '_' and case are habits, not meaning.
std::string normalised(std::string_view word) {
  std::string out;
  for (const char c : word)
    if (c != '-' && c != '_' && c != ' ') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  return out;
}

// Edits (insert, delete, replace, swap of neighbours) from a to b: optimal string alignment.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = normalised(word.substr(0, 100));
  std::string best;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::string have = normalised(candidate);
    const size_t longer = std::max(wanted.size(), have.size());
    const size_t distance = edit_distance(wanted, have);
    const size_t tolerated = longer <= 3 ? 1 : longer <= 6 ? 2 : longer / 3;
    if (distance > tolerated || distance >= longer) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string clipped(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

std::string format_faults(std::string_view source, const std::vector<Fault>& faults) {
  std::vector<const Fault*> sorted;
  for (const Fault& f : faults) sorted.push_back(&f);
  // Faults without a position (overrides, missing keys of the whole file) come last, in the order they were found.
  const auto rank = [](const Fault* f) {
    return std::pair(f->position.line > 0 ? f->position.line : INT32_MAX, f->position.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&rank](const Fault* a, const Fault* b) { return rank(a) < rank(b); });
  std::string out;
  for (const Fault* f : sorted) {
    if (!out.empty()) out += '\n';
    out += source;
    if (f->position.line > 0) out += fmt::format(":{}:{}", f->position.line, f->position.column);
    out += ": ";
    if (!f->path.empty()) out += f->path + ": ";
    out += f->message;
  }
  return out;
}

void refuse_faults(std::string_view source, const std::vector<Fault>& faults) {
  if (!faults.empty()) fail(ErrorKind::config, format_faults(source, faults));
}

}  // namespace trainctl
