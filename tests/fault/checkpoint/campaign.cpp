// tests/fault/checkpoint/campaign.cpp -- what the environment asks for.
#include "fault/checkpoint/campaign.h"

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
  if (const char* only = std::getenv("TRAINCTL_SWEEP_CONFIG")) return {only};
  std::vector<std::string> configs = {R"({"deadline_s":10,"io":"auto"})", R"({"deadline_s":10,"io":"buffered"})"};
  if (is_campaign()) configs.push_back(R"({"deadline_s":10,"io":"threads","verify_after_save":"readback"})");
  return configs;
}

}  // namespace trainctl::testing
