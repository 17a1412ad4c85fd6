#include "execute/spread.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "stats/summary.h"

namespace ridge::execute {
namespace {

using record::Outcome;
using record::ScreenRow;
using record::WorkerRequest;
using record::WorkerResponse;

// A worker's start and the incumbent's build take as long as a few looks.
constexpr std::size_t kFewestOfADevice = 3;

bool answered(const Result<WorkerResponse>& answer) { return answer && answer->error.empty(); }
bool ran(const ScreenRow& row) {
  return row.outcome == Outcome::kPass && !row.latencies.empty() &&
         std::ranges::all_of(row.latencies, [](double latency) { return std::isfinite(latency) && latency > 0; });
}

const ScreenRow* row_of(const WorkerResponse& answer, const std::string& candidate) {
  const auto found = std::ranges::find(answer.screen, candidate, &ScreenRow::candidate);
  return found == answer.screen.end() ? nullptr : &*found;
}
// The incumbent as this device ran it; null where it did not.
const ScreenRow* comparable(const WorkerResponse& answer, const std::string& incumbent) {
  const ScreenRow* row = row_of(answer, incumbent);
  return row != nullptr && ran(*row) ? row : nullptr;
}

ScreenRow fault(const record::Candidate& candidate, std::string detail) {
  ScreenRow row;
  row.candidate = candidate.id();
  row.defines = candidate.defines;
  row.outcome = Outcome::kHarnessFault;
  row.detail = std::move(detail);
  return row;
}

// A row as the reference's device would have it: its shares of the incumbent's times stay.
ScreenRow scaled(ScreenRow row, const ScreenRow& incumbent, const ScreenRow& reference) {
  if (!ran(row) || row.latencies.size() != reference.latencies.size() ||
      incumbent.latencies.size() != reference.latencies.size())
    return row;
  std::vector<double> factors;
  for (std::size_t i = 0; i < row.latencies.size(); ++i) {
    factors.push_back(reference.latencies[i] / incumbent.latencies[i]);
    row.latencies[i] *= factors.back();
  }
  row.score /= stats::geomean(factors);
  return row;
}

ScreenRow row_on(const record::Candidate& candidate, const Result<WorkerResponse>& answer, const std::string& incumbent,
                 const ScreenRow* reference) {
  if (!answer) return fault(candidate, answer.error().text());
  if (!answer->error.empty()) return fault(candidate, answer->error);
  const ScreenRow* row = row_of(*answer, candidate.id());
  if (row == nullptr) return fault(candidate, "the device that it was dealt to sent no row of it");
  if (reference == nullptr || !ran(*row)) return *row;
  const ScreenRow* beside = comparable(*answer, incumbent);
  if (beside == nullptr) return fault(candidate, "the device that it was dealt to has no time of the incumbent");
  return scaled(*row, *beside, *reference);
}

}  // namespace

std::vector<WorkerRequest> deal_screen(const WorkerRequest& request, std::size_t devices) {
  const std::size_t worth = request.incumbent ? request.candidates.size() / kFewestOfADevice : 1;
  std::vector<WorkerRequest> parts(std::clamp<std::size_t>(worth, 1, std::max<std::size_t>(devices, 1)), request);
  if (parts.size() == 1) return parts;
  for (WorkerRequest& part : parts) part.candidates.clear();
  // By turns, so that neighbours in the order of the proposer, which tend to be alike, take equally long.
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    parts[i % parts.size()].candidates.push_back(request.candidates[i]);
  }
  return parts;
}

Result<WorkerResponse> join_screens(const WorkerRequest& request, const std::vector<WorkerRequest>& parts,
                                    std::vector<Result<WorkerResponse>> answers) {
  const auto good = std::ranges::find_if(answers, answered);
  if (parts.size() == 1 || good == answers.end()) return std::move(answers.front());
  const std::string incumbent = request.incumbent ? request.incumbent->id() : std::string();
  const ScreenRow* reference = nullptr;
  for (const Result<WorkerResponse>& answer : answers) {
    if (reference == nullptr && answered(answer)) reference = comparable(*answer, incumbent);
  }
  std::map<std::string, std::size_t> part_of;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const record::Candidate& candidate : parts[part].candidates) part_of.emplace(candidate.id(), part);
  }
  std::vector<ScreenRow> rows;
  for (const record::Candidate& candidate : request.candidates) {
    rows.push_back(row_on(candidate, answers[part_of.at(candidate.id())], incumbent, reference));
  }
  if (reference != nullptr && !part_of.contains(incumbent)) rows.push_back(*reference);
  double cpu_seconds = 0;
  for (const Result<WorkerResponse>& answer : answers) cpu_seconds += answer ? answer->cpu_seconds : 0;
  WorkerResponse joined = std::move(**good);
  joined.screen = std::move(rows);
  joined.cpu_seconds = cpu_seconds;
  return joined;
}

}  // namespace ridge::execute
