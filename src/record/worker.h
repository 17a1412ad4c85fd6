// The one request and the one response of a ridge-worker process, and the progress lines between them.
//
//   ridge-worker REQUEST.json RESPONSE.json      progress: one JSON line each on standard error, prefixed by "@ridge "
//
// The response file is written durably and last; without it the worker counts as crashed, whatever its exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/kernel_pack.h"
#include "record/measurement.h"
#include "record/param.h"
#include "record/profile.h"
#include "record/tuned.h"

namespace ridge::record {

enum class WorkerTask {
  kDescribe,
  kCeilings,
  kOperators,
  kExplain,
  kCheck,
  kBench,
  kBuild,
  kScreen,
  kCalibrate,
  kEvaluate,
  kPlainCall,
  kTune,
  kKernels,
  kProfile
};
template <>
struct EnumNames<WorkerTask> {
  static constexpr std::pair<WorkerTask, std::string_view> kNames[] = {
      {WorkerTask::kDescribe, "describe"},    // -> environment, capabilities
      {WorkerTask::kCeilings, "ceilings"},    // -> ceilings
      {WorkerTask::kOperators, "operators"},  // -> operators
      {WorkerTask::kExplain, "explain"},      // cases -> explanations
      {WorkerTask::kCheck, "check"},          // cases x (implementations | candidates) -> checks
      {WorkerTask::kBench, "bench"},          // cases x (implementations | candidates), optional versus -> bench
      {WorkerTask::kBuild, "build"},          // candidates -> builds
      {WorkerTask::kScreen, "screen"},        // candidates x cases -> screen (quick, unpaired, every call verified)
      {WorkerTask::kCalibrate, "calibrate"},  // incumbent against itself -> sessions
      {WorkerTask::kEvaluate, "evaluate"},    // incumbent, candidate, cases, protocol -> evaluation
      // CUDA candidates x cases, one call each in the worker's own process, for a tool that watches it -> checks
      {WorkerTask::kPlainCall, "plain_call"},
      {WorkerTask::kTune, "tune"},        // cases, backend -> tuned; kept in the cache as they are found
      {WorkerTask::kKernels, "kernels"},  // cases, pack -> the pack that is written; without cases: the pack, checked
      // a candidate x cases, watched by a profiler -> profile, or the report of a project's own; no worker does it
      {WorkerTask::kProfile, "profile"}};
};

struct WorkerRequest {
  std::int64_t version = 1;
  WorkerTask task = WorkerTask::kDescribe;
  std::vector<Case> cases;
  std::vector<std::string> implementations;  // empty: all of them
  std::vector<Candidate> candidates;
  std::optional<Candidate> incumbent;
  std::optional<std::string> versus;  // bench: the implementation or candidate that every other is compared with
  std::int64_t samples = 0;           // bench: of every subject on every case; 0 = as many as is usual
  bool all_implementations = false;   // bench: the library's beside the candidates, its references left out
  double min_time = 0;                // bench: seconds of timed calls of every subject on every case, at least
  Protocol protocol;
  std::vector<Ceiling> ceilings;           // known ones, so that roofline fractions can be given
  std::optional<Calibration> calibration;  // evaluate: plans the size of the sessions
  std::int64_t sessions = 0;               // calibrate, and evaluate with quick_look: how many
  bool quick_look = false;                 // evaluate: fixed size, no error control
  double time_limit = 0;                   // seconds for the whole request; 0 = none
  std::string cache_directory;             // content-addressed artefacts
  bool fresh_build = false;                // build: in a private folder, past the cache
  std::string backend = "cpu";       // explain, ceilings, where no subject says it; kernels: "sm_90a", or the GPU here
  bool again = false;                // tune: also what the cache's table knows already
  bool keep_disturbed = false;       // tune: keep what was measured while others used the processors
  std::string pack;                  // kernels: the file
  std::int64_t configurations = 0;   // kernels: of each implementation, by expected time
  std::optional<std::int64_t> seed;  // check: repeats one; without it the operating system gives one
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("task", self.task);
    v.optional("cases", self.cases);
    v.optional("implementations", self.implementations);
    v.optional("candidates", self.candidates);
    v.optional("incumbent", self.incumbent);
    v.optional("versus", self.versus);
    v.optional("samples", self.samples);
    v.optional("all_implementations", self.all_implementations);
    v.optional("min_time", self.min_time);
    v.optional("protocol", self.protocol);
    v.optional("ceilings", self.ceilings);
    v.optional("calibration", self.calibration);
    v.optional("sessions", self.sessions);
    v.optional("quick_look", self.quick_look);
    v.optional("time_limit", self.time_limit);
    v.optional("cache_directory", self.cache_directory);
    v.optional("fresh_build", self.fresh_build);
    v.optional("backend", self.backend);
    v.optional("again", self.again);
    v.optional("keep_disturbed", self.keep_disturbed);
    v.optional("pack", self.pack);
    v.optional("configurations", self.configurations);
    v.optional("seed", self.seed);
  }
};

// One thing this machine can or cannot do, for `ridge doctor`.
struct Capability {
  std::string name, detail, remedy;
  bool available = false;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("available", self.available);
    v("detail", self.detail);
    v("remedy", self.remedy);
  }
};

// A scalar of an operator, for people; the usual value is that of the operator's default case.
struct ScalarRow {
  std::string name, help, usual;
  ScalarType type = ScalarType::kF64;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("type", self.type);
    v("usual", self.usual);
    v("help", self.help);
  }
};

struct OperatorInfo {
  std::string name, summary;
  std::vector<ParamInfo> params;
  std::vector<std::string> implementations;  // best first
  std::vector<Case> target_cases;            // the shapes a campaign uses unless told otherwise
  std::vector<ScalarRow> scalars;            // what every call may bring anew
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("summary", self.summary);
    v("params", self.params);
    v("implementations", self.implementations);
    v("target_cases", self.target_cases);
    v("scalars", self.scalars);
  }
};

// Dispatch, explained: one line per implementation in the order they are asked.
struct ExplainRow {
  std::string implementation, summary;
  std::string source;  // of a kernel that describes itself, below src/ or by its name alone; empty: another
  bool supported = false, chosen = false;
  std::string reason;  // why it was refused (with values), or why it was chosen
  static void fields(auto& v, auto& self) {
    v("implementation", self.implementation);
    v("summary", self.summary);
    v.optional("source", self.source);
    v("supported", self.supported);
    v("chosen", self.chosen);
    v("reason", self.reason);
  }
};

struct Explanation {
  std::string label;
  Cost cost;
  std::string forced_by;       // empty, "code" or the environment variable
  std::string choice;          // "cuda_wgmma/pp_128x192", as it is named to force it; empty: nothing can run it
  std::string runs;            // the same with the implementation's own choice of a configuration, where it has any
  std::string device, driver;  // as a tuned table names them
  Case bucket;                 // of a tuned table
  std::vector<ExplainRow> rows;
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("cost", self.cost);
    v("forced_by", self.forced_by);
    v.optional("choice", self.choice);
    v.optional("runs", self.runs);
    v.optional("device", self.device);
    v.optional("driver", self.driver);
    v.optional("bucket", self.bucket);
    v("rows", self.rows);
  }
};

// Checks of one implementation or candidate.
struct CheckReport {
  std::string subject;
  std::vector<CheckRow> rows;
  double false_alarm_rate = 0;  // the chance, at most, that the bias line calls any right output of these rows wrong
  static void fields(auto& v, auto& self) {
    v("subject", self.subject);
    v("rows", self.rows);
    v.optional("false_alarm_rate", self.false_alarm_rate);
  }
};

struct WorkerResponse {
  std::int64_t version = 1;
  std::string error;  // not empty: the request as a whole failed; nothing else is valid
  std::string error_hint;
  bool unavailable = false;  // what failed is this machine or build, not the request
  std::optional<Environment> environment;
  std::vector<Capability> capabilities;
  std::vector<Ceiling> ceilings;
  std::vector<OperatorInfo> operators;
  std::vector<Explanation> explanations;
  std::vector<CheckReport> checks;
  std::vector<BenchRow> bench;
  std::vector<BuildEvidence> builds;
  std::vector<ScreenRow> screen;
  std::vector<Session> sessions;
  std::optional<Evaluation> evaluation;
  std::vector<TunedChoice> tuned;
  std::optional<KernelPack> pack;
  std::vector<std::string> pack_problems;
  std::optional<ProfileReport> profile;
  std::string profiler_report;  // of a project's own profiler, as it was written
  double cpu_seconds = 0;       // processor time of the worker and of what it ran; 0: not known
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v.optional("error", self.error);
    v.optional("error_hint", self.error_hint);
    v.optional("unavailable", self.unavailable);
    v.optional("environment", self.environment);
    v.optional("capabilities", self.capabilities);
    v.optional("ceilings", self.ceilings);
    v.optional("operators", self.operators);
    v.optional("explanations", self.explanations);
    v.optional("checks", self.checks);
    v.optional("bench", self.bench);
    v.optional("builds", self.builds);
    v.optional("screen", self.screen);
    v.optional("sessions", self.sessions);
    v.optional("evaluation", self.evaluation);
    v.optional("tuned", self.tuned);
    v.optional("pack", self.pack);
    v.optional("pack_problems", self.pack_problems);
    v.optional("profile", self.profile);
    v.optional("profiler_report", self.profiler_report);
    v.optional("cpu_seconds", self.cpu_seconds);
  }
};

// How far a long request is: "measuring, session 3 of at most 32, shape 2 of 5".
struct Progress {
  std::string stage, detail;
  double fraction = 0;  // of the request, 0..1, as far as it can be known
  static void fields(auto& v, auto& self) {
    v("stage", self.stage);
    v("detail", self.detail);
    v("fraction", self.fraction);
  }
};

inline constexpr std::string_view kProgressPrefix = "@ridge ";

}  // namespace ridge::record
