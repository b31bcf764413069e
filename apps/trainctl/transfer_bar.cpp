// apps/trainctl/transfer_bar.cpp -- one line on stderr.
#include "transfer_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

namespace trainctl {

std::function<void(int64_t, int64_t)> transfer_bar(std::string_view what) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [what = std::string(what), shown = std::make_shared<int>(-1)](int64_t done, int64_t total) {
    const int percent =
        total > 0 ? static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total)) : 100;
    if (percent == *shown) return;
    *shown = percent;
    const std::string line = done >= total
                                 ? "\r\033[K"
                                 : fmt::format("\r{} [{:<30}] {:>3} %", what,
                                               std::string(static_cast<size_t>(percent * 30 / 100), '='), percent);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  };
}

}  // namespace trainctl
