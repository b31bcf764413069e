// lib/base/log.cpp -- loggers for programs and ranks.
#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/null_sink.h>

#include "base/error.h"

namespace trainctl {

Logger make_stderr_logger(bool colour) {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(colour ? spdlog::color_mode::always
                                                                               : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("trainctl", std::move(sink));
  logger->set_pattern("%^%l%$: %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

Logger make_file_logger(const std::filesystem::path& path, int rank) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), false);
    auto logger = std::make_shared<spdlog::logger>(fmt::format("rank {}", rank), std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e [%n] %l %v");
    logger->flush_on(spdlog::level::trace);
    return logger;
  } catch (const spdlog::spdlog_ex& e) {
    fail(ErrorKind::environment, fmt::format("cannot open the log file {}: {}", path.string(), e.what()));
  }
}

Logger make_null_logger() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace trainctl
