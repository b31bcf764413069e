// lib/trainer/rank_report.h -- errors/rank-N.json: what a failing or hanging rank says about itself.
#pragma once

#include <string>

#include "base/error.h"
#include "comm/recorder.h"
#include "recipe/job.h"

namespace trainctl {

std::string host_name();

// `recorder` may be null: the failure came before there was a world.
RankFailure failure_of(const std::exception& error, int64_t rank, const Recorder* recorder);

// Writes the report; when that fails (a full disk must not hide the first error) it is printed on stderr as one line,
// which the launcher reads instead.
void report_failure(const RankFailure& failure, const RunPaths& paths);

}  // namespace trainctl
