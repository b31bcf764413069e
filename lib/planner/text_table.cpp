// lib/planner/text_table.cpp -- see the header.
#include "planner/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace trainctl {

TextTable::TextTable(std::vector<std::string> header, std::vector<size_t> left) : left_(std::move(left)) {
  rows_.push_back(std::move(header));
}

void TextTable::row(std::vector<std::string> cells) {
  ensure(cells.size() == rows_.front().size(), "a table row has as many cells as the header");
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line = "  ";
    for (size_t c = 0; c < row.size(); ++c) {
      const bool left = std::find(left_.begin(), left_.end(), c) != left_.end();
      const std::string blanks(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (left ? row[c] + blanks : blanks + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string wrapped(std::string_view lead, std::string_view text) {
  const size_t room = kTextColumns - std::min(lead.size(), kTextColumns / 2);
  std::string out, line{lead};
  size_t used = 0;  // of the room
  const auto end_line = [&] {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    line.assign(lead.size(), ' ');
    used = 0;
  };
  while (!text.empty()) {
    const size_t blank = text.find_first_of(" \n");
    std::string_view word = text.substr(0, std::min({blank, room, text.size()}));
    if (used > 0 && used + 1 + word.size() > room) end_line();
    if (used > 0) line += ' ';
    used += word.size() + (used > 0 ? 1 : 0);
    line += word;
    text.remove_prefix(word.size());
    if (!text.empty() && text.front() == '\n') end_line();
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  }
  if (used > 0 || out.empty()) end_line();
  return out;
}

std::string ranges_text(const std::vector<int>& ascending, size_t width) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    const std::string range = last == i       ? fmt::format("{}", ascending[i])
                              : last == i + 1 ? fmt::format("{},{}", ascending[i], ascending[last])
                                              : fmt::format("{}-{}", ascending[i], ascending[last]);
    const bool more = last + 1 < ascending.size();
    if (!text.empty() && text.size() + 1 + range.size() + (more ? 4 : 0) > width) return text + ",...";
    text += (text.empty() ? "" : ",") + range;
    i = last + 1;
  }
  return text;
}

std::string cut_to(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  return std::string(text.substr(0, width - 3)) + "...";
}

}  // namespace trainctl
