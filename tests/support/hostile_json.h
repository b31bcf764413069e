// tests/support/hostile_json.h -- what may stand where a program expects a record that it wrote itself.
#pragma once

#include <string>
#include <vector>

namespace trainctl::testing {

// One text each, without a line end: no JSON, JSON of another type, deep, missing keys, keys of wrong types.
inline std::vector<std::string> hostile_json() {
  const std::string deep(100000, '[');
  return {"",
          "{}",
          "[]",
          "null",
          "1",
          "-0.0e5",
          "\"x\"",
          "true",
          "{",
          "\"",
          "\xff\xfe\x01",
          std::string(16, '\0'),
          deep,
          "{\"recipe\":" + deep,
          deep + std::string(100000, ']'),
          R"({"":{}})",
          R"({"schema":null})",
          R"({"schema":{"a":[]},"recipe":[],"world_size":"2"})",
          R"({"name":1,"model":[],"runtime":null,"data":"x"})",
          R"({"step":null,"level":null,"text":null})",
          R"({"step":"1","level":1,"text":[]})",
          R"({"step":{},"loss":{},"level":"saved"})",
          R"({"step":1.5,"loss":2})",
          R"({"step":1e300,"loss":2})",
          R"({"step":18446744073709551615,"loss":[]})",
          R"({"rank":-1,"kind":7,"message":{}})",
          R"({"memory":1,"traffic":null,"flops":[]})",
          R"({"memory":[{}],"traffic":{},"flops":{}})"};
}

}  // namespace trainctl::testing
