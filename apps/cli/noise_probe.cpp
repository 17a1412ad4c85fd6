#include "noise_probe.h"

#include <fmt/format.h>

#include "campaign/calibration.h"
#include "journal/samples.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

constexpr double kDecided = 0.02;  // 1 % with sessions of up to half a per cent of noise
constexpr double kSeconds = 20;

Result<record::WorkerRequest> small_product() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCalibrate;
  request.implementations = {"cpu_simd"};
  RIDGE_TRY(product, record::parse_case("gemm m=256 n=256 k=256"));
  request.cases = {product};
  request.sessions = 8;
  request.protocol.max_quads = 4;
  request.protocol.max_launches = 3;
  request.time_limit = kSeconds;
  return request;
}

}  // namespace

record::Capability probe_noise(const record::Environment& environment) {
  record::Capability found;
  found.name = "decide a gain of 1 %";
  Result<record::WorkerRequest> request = small_product();
  const Result<record::WorkerResponse> response =
      request ? ask_worker(std::move(*request)) : Result<record::WorkerResponse>(request.error());
  if (!response) {
    found.detail = response.error().text();
    return found;
  }
  std::vector<std::string> labels;
  for (const record::Session& session : response->sessions) {
    labels.clear();
    for (const record::ShapeSamples& shape : session.shapes) labels.push_back(shape.label);
  }
  const Result<record::Calibration> calibration =
      campaign::calibration_of(response->sessions, labels, record::Protocol());
  if (!calibration) {
    found.detail = calibration.error().text();
    return found;
  }
  found.available = calibration->healthy && calibration->detectable <= kDecided;
  found.detail = "just now " + calibration->reason;
  for (const std::string& line : campaign::what_would_help(response->sessions, environment)) {
    found.remedy += (found.remedy.empty() ? "" : "; ") + line;
  }
  if (found.remedy.empty())
    found.remedy = "larger gains are decided all the same; `ridge calibrate` measures your case";
  return found;
}

}  // namespace ridge::cli
