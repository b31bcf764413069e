// tests/fuzz/target.h -- what a fuzz target defines. Each reads bytes that a stranger may have written.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::fuzz {

// True when the reader takes `input`; false when it refuses it with the kind of error that is meant for it. Anything
// else, another exception or a broken law of what was taken, ends the program.
bool accepts(std::string_view input);

// Inputs that must be taken, made by the writer of the same format.
std::vector<std::string> valid_inputs();

inline void law(bool holds, const char* text) {
  if (holds) return;
  std::fprintf(stderr, "broken law: %s\n", text);
  std::abort();
}

// Every file below `folder`, read whole.
std::vector<std::string> contents_below(const std::filesystem::path& folder);

}  // namespace trainctl::fuzz
