// lib/base/json_node.cpp -- looking into parsed JSON, and printing it compactly.
#include "base/json_node.h"

#include <fmt/format.h>

#include <array>

#include "base/atomic_file.h"

namespace trainctl {

const JsonNode* JsonNode::find(std::string_view key) const {
  if (const Object* members = as<Object>())
    for (const Member& m : *members)
      if (m.key == key) return &m.value;
  return nullptr;
}

std::string_view JsonNode::type_name() const {
  constexpr std::array<std::string_view, 8> names = {"null",   "boolean", "integer", "integer",
                                                     "number", "string",  "array",   "object"};
  return names[value.index()];
}

std::string in_quotes(std::string_view word) {
  std::string out = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out.push_back(c);
  }
  return out + '"';
}

std::string JsonNode::text() const {
  struct Printer {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(uint64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const { return fmt::format("{}", d); }
    std::string operator()(const std::string& s) const { return in_quotes(s); }
    std::string operator()(const Array& items) const {
      std::string out = "[";
      for (const JsonNode& item : items) out += (out.size() > 1 ? ", " : "") + item.text();
      return out + "]";
    }
    std::string operator()(const Object& members) const {
      std::string out = "{";
      for (const Member& m : members) out += (out.size() > 1 ? ", " : "") + in_quotes(m.key) + ": " + m.value.text();
      return out + "}";
    }
  };
  return std::visit(Printer{}, value);
}

JsonNode parse_json(std::string_view text, std::string_view source) {
  ParsedJson parsed = parse_json_lenient(text);
  refuse_faults(source, parsed.faults);
  return std::move(parsed.root);
}

JsonNode parse_json_file(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

}  // namespace trainctl
