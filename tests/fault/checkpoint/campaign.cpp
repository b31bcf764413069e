// tests/fault/checkpoint/campaign.cpp -- what the environment asks for.
#include "fault/checkpoint/campaign.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace trainctl::testing {

bool is_campaign() {
  const char* value = std::getenv("TRAINCTL_CAMPAIGN");
  return value != nullptr && std::string(value) == "1";
}

void report_result(const std::string& what, int64_t tried, int64_t passed) {
  std::printf("result: %s: %lld tried, %lld passed\n", what.c_str(), static_cast<long long>(tried),
              static_cast<long long>(passed));
}

std::vector<std::string> sweep_configs() {
  std::vector<std::string> configs = {R"({"deadline_s":3})"};
  const char* more = std::getenv("TRAINCTL_SWEEP_CONFIGS");
  const std::string text = more == nullptr ? "" : more;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    configs.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return configs;
}

}  // namespace trainctl::testing
