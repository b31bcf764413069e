// lib/base/config_unknown_key.cpp -- what an unknown key was probably meant to be.
#include <fmt/format.h>

#include <algorithm>

#include "base/config_reader.h"

namespace trainctl {
namespace {

// "data.train[0]" -> "data.train[]": the section an element's keys are listed under.
std::string section_of(const std::string& path) {
  std::string out;
  bool in_brackets = false;
  for (const char c : path) {
    if (c == ']') in_brackets = false;
    if (!in_brackets) out.push_back(c);
    if (c == '[') in_brackets = true;
  }
  return out;
}

// Differs in habits only: case, '-' for '_'.
bool same_word(std::string_view a, std::string_view b) {
  const auto plain = [](std::string_view s) {
    std::string out;
    for (const char c : s)
      if (c != '-' && c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    return out;
  };
  return plain(a) == plain(b);
}

bool answers_to(const KeyCollector::Key& key, std::string_view word) {
  return same_word(key.name, word) ||
         std::any_of(key.aliases.begin(), key.aliases.end(), [&](const std::string& a) { return same_word(a, word); });
}

}  // namespace

void KeyCollector::add(std::string_view key, const Rule& rule) {
  keys_.push_back({path_.back(), std::string(key), rule.aliases});
}

bool KeyCollector::begin_object(std::string_view key, std::string_view, const Rule& rule) {
  add(key, rule);
  path_.push_back(join_path(path_.back(), key));
  return true;
}

int64_t KeyCollector::begin_array(std::string_view key, int64_t, std::string_view, const Rule& rule) {
  add(key, rule);
  path_.push_back(join_path(path_.back(), key) + "[]");
  return 0;
}

std::string ConfigReader::report_unknown(const Frame& frame, const JsonNode::Member& member) {
  const std::string section = section_of(frame.path);
  const auto place = [](const std::string& s) {
    return s.empty() ? std::string("at the top level") : fmt::format("in {}", in_quotes(s));
  };
  std::string advice, meant;
  std::vector<std::string> here;
  for (const KeyCollector::Key& key : legal_.keys()) {
    if (key.section != section) continue;
    here.push_back(key.name);
    if (meant.empty() && answers_to(key, member.key)) {
      meant = key.name;
      advice = fmt::format("it is spelt {} here", in_quotes(meant));
    }
  }
  // The right word in the wrong place: name every place it is at home.
  if (advice.empty()) {
    std::string homes;
    for (const KeyCollector::Key& key : legal_.keys())
      if (key.section != section && answers_to(key, member.key))
        homes += fmt::format("{}{} {}", homes.empty() ? "" : ", or ", in_quotes(key.name), place(key.section));
    if (!homes.empty()) advice = fmt::format("it belongs elsewhere: {}", homes);
  }
  if (advice.empty()) {
    std::vector<std::string> words, meaning;  // names and aliases of this section, with what each stands for
    for (const KeyCollector::Key& key : legal_.keys()) {
      if (key.section != section) continue;
      words.push_back(key.name);
      meaning.push_back(key.name);
      for (const std::string& alias : key.aliases) {
        words.push_back(alias);
        meaning.push_back(key.name);
      }
    }
    if (const std::string near = nearest(member.key, words); !near.empty()) {
      const auto index = static_cast<size_t>(std::find(words.begin(), words.end(), near) - words.begin());
      meant = meaning[index];
      advice = fmt::format("did you mean {}?", in_quotes(meant));
    }
  }
  if (advice.empty()) {
    std::vector<std::string> words;
    for (const KeyCollector::Key& key : legal_.keys())
      if (key.section != section) words.push_back(key.name);
    if (const std::string near = nearest(member.key, words); !near.empty())
      for (const KeyCollector::Key& key : legal_.keys())
        if (key.section != section && key.name == near && advice.empty())
          advice = fmt::format("did you mean {} {}?", in_quotes(near), place(key.section));
  }
  if (advice.empty()) {
    std::string names;
    for (const std::string& n : here) names += (names.empty() ? "" : ", ") + n;
    advice = here.empty() ? "no key is legal here" : fmt::format("the keys here are {}", names);
  }
  std::string message = fmt::format("unknown key {} {}; {}", in_quotes(clipped(member.key)), place(frame.path), advice);
  if (!member.value.origin.empty()) message += fmt::format(" (set by {})", member.value.origin);
  faults_.push_back({join_path(frame.path, member.key), member.position, std::move(message)});
  return meant;
}

}  // namespace trainctl
