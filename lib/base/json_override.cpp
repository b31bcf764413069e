// lib/base/json_override.cpp -- "section.key=value" applied to parsed JSON.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/json_node.h"
#include "base/units.h"

namespace trainctl {
namespace {

struct Step {
  std::string key;              // of an object
  std::optional<size_t> index;  // of an array, instead of the key
};

[[noreturn]] void malformed(std::string_view expression, std::string_view why) {
  fail(ErrorKind::usage, fmt::format("--set {}: {}; write --set section.key=value, or key[0] for the first element of "
                                     "an array",
                                     expression, why));
}

// "data.train[0].weight" -> data, train, [0], weight.
std::vector<Step> split_path(std::string_view expression, std::string_view path) {
  std::vector<Step> steps;
  while (!path.empty() || steps.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    const std::string_view name = part.substr(0, part.find('['));
    if (name.empty()) malformed(expression, "a key is empty");
    steps.push_back({std::string(name), std::nullopt});
    for (std::string_view rest = part.substr(name.size()); !rest.empty();) {
      const size_t close = rest.find(']');
      size_t index = 0;
      if (rest.front() != '[' || close == std::string_view::npos) malformed(expression, "brackets do not match");
      const auto [end, code] = std::from_chars(rest.data() + 1, rest.data() + close, index);
      if (code != std::errc() || end != rest.data() + close)
        malformed(expression, fmt::format("{} is no index", rest.substr(0, close + 1)));
      steps.push_back({"", index});
      rest.remove_prefix(close + 1);
    }
    if (part.size() == path.size()) break;
    path.remove_prefix(part.size() + 1);
    if (path.empty()) malformed(expression, "a key is empty");
  }
  return steps;
}

void mark_origin(JsonNode& node, const std::string& origin) {
  node.position = {};
  node.origin = origin;
  if (auto* items = std::get_if<JsonNode::Array>(&node.value))
    for (JsonNode& item : *items) mark_origin(item, origin);
  if (auto* members = std::get_if<JsonNode::Object>(&node.value))
    for (JsonNode::Member& m : *members) {
      m.position = {};
      mark_origin(m.value, origin);
    }
}

}  // namespace

void apply_override(JsonNode& root, std::string_view expression) {
  const size_t equals = expression.find('=');
  if (equals == std::string_view::npos) malformed(expression, "there is no \"=\"");
  const std::vector<Step> steps = split_path(expression, expression.substr(0, equals));
  const std::string_view text = expression.substr(equals + 1);

  JsonNode* node = &root;
  std::string reached;
  for (const Step& step : steps) {
    const bool is_new = node->as<std::nullptr_t>() != nullptr;  // also an explicit null: it holds nothing to lose
    if (step.index) {
      if (is_new) node->value = JsonNode::Array{};
      auto* items = std::get_if<JsonNode::Array>(&node->value);
      if (items == nullptr)
        fail(ErrorKind::usage, fmt::format("--set {}: {} is no array (it is of type {}), so it has no [{}]", expression,
                                           reached, node->type_name(), *step.index));
      if (*step.index > items->size())
        fail(ErrorKind::usage, fmt::format("--set {}: {} has {}; the next free index is [{}]", expression, reached,
                                           counted(std::ssize(*items), "element"), items->size()));
      if (*step.index == items->size()) items->emplace_back();
      node = &(*items)[*step.index];
      reached += fmt::format("[{}]", *step.index);
    } else {
      if (is_new) node->value = JsonNode::Object{};
      auto* members = std::get_if<JsonNode::Object>(&node->value);
      if (members == nullptr)
        fail(ErrorKind::usage,
             fmt::format("--set {}: {} is no section (it is of type {}), so it has no key {}", expression,
                         reached.empty() ? "the file" : reached, node->type_name(), in_quotes(step.key)));
      JsonNode* found = nullptr;
      for (JsonNode::Member& m : *members)
        if (m.key == step.key) found = &m.value;
      if (found == nullptr) {
        members->push_back({step.key, {}, {}});
        found = &members->back().value;
        found->origin = fmt::format("--set {}", expression);
      }
      node = found;
      reached += (reached.empty() ? "" : ".") + step.key;
    }
  }
  // "[1, 2" or "tru" is a string here and fails later, at its key, when the key holds no string.
  ParsedJson parsed = parse_json_lenient(text);
  if (parsed.complete && parsed.faults.empty()) {
    *node = std::move(parsed.root);
  } else {
    *node = JsonNode{};
    node->value = std::string(text);
  }
  mark_origin(*node, fmt::format("--set {}", expression));
}

}  // namespace trainctl
