// lib/base/log.h -- logging through spdlog: stderr for programs, a file for ranks. No global logger: it is passed on.
#pragma once

#include <spdlog/logger.h>

#include <filesystem>
#include <memory>

namespace trainctl {

using Logger = std::shared_ptr<spdlog::logger>;
Logger make_stderr_logger(bool colour);
Logger make_file_logger(const std::filesystem::path& path, int rank);  // "time [rank N] level text", flushed per line
Logger make_null_logger();

}  // namespace trainctl
