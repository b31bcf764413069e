// lib/planner/text_table.h -- plain text tables and paragraphs of bounded width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

inline constexpr size_t kTextColumns = 100;

// Columns as wide as their widest cell, two blanks between them. The first column and those named in `left` are left
// aligned, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::vector<size_t> left = {0});
  void row(std::vector<std::string> cells);  // as many as the header
  std::string text() const;                  // each line indented by two

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> left_;
};

// `text` in lines of at most kTextColumns, the first after `lead`, the others indented to the width of `lead`. Words
// that are longer than a line are cut.
std::string wrapped(std::string_view lead, std::string_view text);

// Ascending numbers as ranges: "0-7,16". Longer than `width`: what fits, then ",...".
std::string ranges_text(const std::vector<int>& ascending, size_t width);

// `text` cut to `width` with a final "...".
std::string cut_to(std::string_view text, size_t width);

}  // namespace trainctl
