// How noisy this machine is, the smallest effect it can show, and what would help.
#pragma once

#include <cstdint>
#include <string>

#include "record/campaign.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/subjects.h"

namespace ridge::service {

struct CalibrateRequest {
  Subjects subjects;                          // one; none: what the library chooses for the first case
  std::string budget = "60s";                 // for the sessions, which are made as large as fits
  std::string mode = "cold";                  // or warm
  std::int64_t sessions = 24, decisions = 0;  // decisions on the subject against itself, afterwards
  double min_effect = 0.01;
};
Result<record::CalibrationReport> calibrate(const Context& context, const CalibrateRequest& request);

// Some seconds of a small product against itself: whether a gain of 1 % can be decided here.
record::Capability probe_noise(const Context& context, const record::Environment& environment);

}  // namespace ridge::service
