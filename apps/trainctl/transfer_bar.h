// apps/trainctl/transfer_bar.h -- the progress of an import or an export, on a terminal only.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace trainctl {

// Empty when stderr is no terminal. The line is rewritten at every whole percent and wiped at the end.
std::function<void(int64_t done, int64_t total)> transfer_bar(std::string_view what);

}  // namespace trainctl
