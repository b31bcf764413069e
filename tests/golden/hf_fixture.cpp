// tests/golden/hf_fixture.cpp -- reading a fixture's files.
#include "hf_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/atomic_file.h"
#include "checkpoint/safetensors.h"

namespace trainctl::testing {
namespace {

std::filesystem::path fixtures() {
  const char* source = std::getenv("TRAINCTL_SOURCE");
  return std::filesystem::path(source ? source : ".") / "tests/golden/hf";
}

template <class T>
std::vector<T> read_tensor(const SafetensorsReader& reader, const SafetensorsTensor& t) {
  std::vector<T> values(static_cast<size_t>(t.bytes()) / sizeof(T));
  reader.read(t, values.data(), t.bytes());
  return values;
}

}  // namespace

Fixture load_fixture(const std::string& name) {
  Fixture f;
  const SafetensorsReader reader(fixtures() / (name + ".safetensors"));
  for (const SafetensorsTensor& t : reader.header().tensors) {
    if (t.name == "tokens") {
      f.tokens = read_tensor<int32_t>(reader, t);
      f.batch = t.shape.at(0);
      f.sequence = t.shape.at(1);
    }
    if (t.name == "labels") f.labels = read_tensor<int32_t>(reader, t);
    if (t.name == "logits") f.logits = read_tensor<float>(reader, t);
    if (t.name == "loss") f.loss = read_tensor<double>(reader, t).at(0);
    if (t.name.starts_with("weight/")) f.weights[t.name.substr(7)] = read_tensor<float>(reader, t);
    if (t.name.starts_with("grad/")) f.gradients[t.name.substr(5)] = read_tensor<float>(reader, t);
  }
  const std::string text = fmt::format(
      R"({{"name":"{}","model":{},"data":{{"train":[{{"path":"fixture"}}],"sequence_tokens":{}}},"parallelism":{{}},
          "optimizer":{{"lr":0.001}},"runtime":{{"steps":1,"global_batch_size":{},"micro_batch_size":1}},"checkpoint":{{}}}})",
      name, read_file(fixtures() / (name + ".json")), f.sequence, f.batch);
  f.recipe = load_recipe_text(text, name).recipe;
  return f;
}

void FixtureSource::fill(SampleSplit, int64_t first, int64_t count, const SampleBuffers& out) {
  const auto n = static_cast<size_t>(count * f_.sequence);
  std::copy_n(f_.tokens.begin() + first * f_.sequence, n, out.tokens);
  std::copy_n(f_.labels.begin() + first * f_.sequence, n, out.labels);
  for (size_t i = 0; i < n; ++i) out.positions[i] = static_cast<int32_t>(i % static_cast<size_t>(f_.sequence));
}

}  // namespace trainctl::testing
