#include "execute/project_executor.h"

#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/confinement.h"
#include "base/error.h"
#include "base/files.h"
#include "execute/plausible.h"
#include "execute/project_copy.h"
#include "execute/project_device.h"
#include "execute/project_session.h"
#include "record/case.h"
#include "record/configuration.h"
#include "record/tunables.h"
#include "stats/summary.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using record::Outcome;
using record::WorkerRequest;
using record::WorkerResponse;
using Steady = std::chrono::steady_clock;

constexpr double kLeastSeconds = 1.0;  // left over, for one more process
// Processes of each arm with fresh and with reused tensors in one look, and looks at most.
constexpr int kFreshProcesses = 5, kFreshLooks = 3;

std::vector<std::string> labels_of(const std::vector<record::Case>& cases) {
  std::vector<std::string> labels;
  for (const record::Case& one : cases) labels.push_back(project::label_of(one));
  return labels;
}

using FastestRows = std::map<std::string, double>;  // label -> latency

double ratio_of(const FastestRows& numerator, const FastestRows& denominator) {
  std::vector<double> ratios;
  for (const auto& [label, latency] : numerator) {
    if (denominator.contains(label)) ratios.push_back(latency / denominator.at(label));
  }
  return stats::geomean(ratios);
}

// The order of a session's four processes: alternates by the parity of the bits of its index, so that neither a trend
// nor a period of two favours an arm.
std::string order_of(std::int64_t index) {
  return __builtin_popcountll(static_cast<unsigned long long>(index)) % 2 == 0 ? "ABBA" : "BAAB";
}

class ProjectExecutor final : public Executor {
 public:
  ProjectExecutor(project::Project project, ProjectOptions options)
      : project_(std::move(project)),
        options_(std::move(options)),
        incumbent_(project_, options_.workspace / "a", hidden_of(options_)),
        candidate_(project_, options_.workspace / "b", hidden_of(options_)),
        reference_(project_, options_.workspace / "reference", hidden_of(options_)) {
    if (options_.whole) whole_.emplace(*options_.whole, options_.workspace / "whole", hidden_of(options_));
    incumbent_.guard(candidate_);
    candidate_.guard(incumbent_);
  }

  Result<WorkerResponse> run(const WorkerRequest& request, const OnProgress& on_progress,
                             const ShouldStop& should_stop) override {
    RIDGE_CHECK_OK(incumbent_.make());
    RIDGE_CHECK_OK(candidate_.make());
    if (!project_.reference.empty()) {
      RIDGE_CHECK_OK(reference_.make());
      RIDGE_CHECK_OK(reference_.without_kernel());
    }
    started_ = Steady::now();
    WorkerResponse response;
    switch (request.task) {
      case record::WorkerTask::kDescribe: {
        RIDGE_TRY(environment, describe());
        response.environment = std::move(environment);
        return response;
      }
      case record::WorkerTask::kCeilings: response.ceilings = {ceiling()}; return response;
      case record::WorkerTask::kBench: return response;  // no other implementation is known
      case record::WorkerTask::kBuild: {
        RIDGE_CHECK_OK(candidate_.place(request.candidates.front()));
        RIDGE_TRY(build, build_in(candidate_, request.candidates.front(), should_stop));
        response.builds = {build.evidence};
        return response;
      }
      case record::WorkerTask::kCalibrate: {
        RIDGE_TRY(prepared, prepare(request, should_stop));
        if (prepared.outcome != Outcome::kPass) return make_error(ErrorCode::kToolFailed, "{}", prepared.detail);
        RIDGE_CHECK_OK(measure(request, "calibrate", prepared, on_progress, should_stop));
        if (prepared.outcome != Outcome::kPass) return make_error(ErrorCode::kToolFailed, "{}", prepared.detail);
        response.sessions = std::move(prepared.sessions);
        return response;
      }
      case record::WorkerTask::kEvaluate: {
        RIDGE_TRY(evaluation, honest_evaluation(request, on_progress, should_stop));
        response.evaluation = std::move(evaluation);
        return response;
      }
      case record::WorkerTask::kProfile: {
        RIDGE_TRY(report, profile(request, should_stop));
        response.profiler_report = std::move(report);
        return response;
      }
      case record::WorkerTask::kScreen: {
        RIDGE_TRY(rows, screen(request, on_progress, should_stop));
        response.screen = std::move(rows);
        return response;
      }
      default: break;
    }
    return make_error(ErrorCode::kUnsupported, "a project campaign cannot do \"{}\"", record::name_of(request.task));
  }

 private:
  // The candidate under the project's own profiler, within the time that the request has. The build before it has its
  // usual limit: a project that builds for minutes would never be looked at.
  Result<std::string> profile(const WorkerRequest& request, const ShouldStop& should_stop) {
    if (project_.profile.empty())
      return with_hint(make_error(ErrorCode::kUnsupported, "the project states no profiler"),
                       fmt::format("commands.profile in {}", project::kProjectFile));
    RIDGE_CHECK_OK(candidate_.place(request.candidates.front()));
    RIDGE_TRY(build, build_in(candidate_, request.candidates.front(), should_stop));
    if (!build.problem.empty()) return make_error(ErrorCode::kToolFailed, "{}", build.problem);
    const ShouldStop out_of_time = [&, built = Steady::now()] {
      const std::chrono::duration<double> taken = Steady::now() - built;
      return (should_stop && should_stop()) || (request.time_limit > 0 && taken.count() > request.time_limit);
    };
    Result<std::string> report = candidate_.profile(labels_of(request.cases), out_of_time);
    if (!candidate_.offence().empty()) {
      const Error offence = make_error(ErrorCode::kToolFailed, "{}", candidate_.offence());
      RIDGE_CHECK_OK(candidate_.make());
      return offence;
    }
    return report;
  }

  struct Built {
    record::BuildEvidence evidence;
    std::string problem;
  };

  Result<record::Environment> describe() const {
    RIDGE_TRY(device, device_of(project_));
    utsname system{};
    ::uname(&system);
    record::Environment environment;
    environment.facts["system.kernel"] = fmt::format("{} {}", system.sysname, system.release);
    environment.facts["system.machine"] = system.machine;
    environment.facts["system.node"] = system.nodename;
    environment.facts["project.device"] = device;
    if (!project_.prefix.empty()) environment.facts["project.prefix"] = quote_command(project_.prefix);
    environment.facts["project.outputs"] = project_.reference.empty()
                                               ? "checked by the project's benchmark alone, in the kernel's process"
                                               : "checked by a process that never sees the kernel (commands.reference)";
    environment.facts["project.confined"] = why_not_confined().empty() ? "yes" : why_not_confined();
    const Result<std::string> cpus = read_file("/proc/cpuinfo");
    const std::size_t at = cpus ? cpus->find("model name") : std::string::npos;
    if (at != std::string::npos) {
      const std::size_t colon = cpus->find(':', at);
      environment.facts["cpu.model"] = cpus->substr(colon + 2, cpus->find('\n', colon) - colon - 2);
    }
    return environment;
  }

  record::Ceiling ceiling() const {
    record::Ceiling ceiling;
    ceiling.name = project_.metric_column;
    ceiling.unit = "per second";
    ceiling.value = project_.peak * project_.metric_unit;
    ceiling.samples = {ceiling.value};
    ceiling.method = "benchmark.peak of ridge-project.toml";
    return ceiling;
  }

  // The folder of all copies is hidden as well: each command is handed its own.
  static std::vector<fs::path> hidden_of(const ProjectOptions& options) {
    std::vector<fs::path> hidden = options.hidden;
    hidden.push_back(options.workspace);
    return hidden;
  }

  // `allowed`: what the incumbent's build makes, which are products of the project's build; the candidate's may change
  // no other file, and what it adds beside them is removed.
  static Result<Built> build_in(ProjectCopy& copy, const record::Candidate& candidate, const ShouldStop& should_stop,
                                const ProjectCopy::Products* allowed = nullptr) {
    Built built;
    built.evidence.candidate = candidate.id();
    RIDGE_TRY(result, copy.build(should_stop, allowed));
    built.evidence.compiler = "the project's build";
    built.evidence.command = "build";
    built.evidence.wall = result.wall;
    built.evidence.log = last_lines(result.error_output + result.output);
    if (!copy.removed().empty()) built.evidence.log += "\n" + removed_by(copy);
    if (!result.succeeded()) {
      built.problem = "the build " + result.describe();
      return built;
    }
    const Result<std::string> artifact = copy.artifact();
    if (!artifact) {
      built.problem = "the build made no artefact: " + artifact.error().message;
      return built;
    }
    built.evidence.artifact = *artifact;
    return built;
  }

  // Names files that the last build added and that were removed.
  static std::string removed_by(const ProjectCopy& copy) {
    constexpr std::size_t kNamed = 5;
    const std::vector<std::string>& all = copy.removed();
    const std::vector<std::string> named(all.begin(), all.begin() + std::min(all.size(), kNamed));
    return fmt::format(
        "removed, since the incumbent's build adds no such file: {}{} (where that is meant, name the file or its "
        "folder "
        "in commands.writes)",
        fmt::join(named, ", "), all.size() > kNamed ? fmt::format(" and {} more", all.size() - kNamed) : "");
  }

  // Places and builds the incumbent in its copy: what it makes is what a candidate's build may make.
  Result<Built> build_incumbent(const WorkerRequest& request, const ShouldStop& should_stop) {
    if (!request.incumbent) return invalid("a screening needs the incumbent");
    RIDGE_CHECK_OK(incumbent_.place(*request.incumbent));
    return build_in(incumbent_, *request.incumbent, should_stop);
  }

  // Every configuration of a sweep, each looked at once: built, and one process of the benchmark on fresh tensors,
  // whose rows must pass its own check. Nothing is ever accepted on these numbers.
  Result<std::vector<record::ScreenRow>> screen(const WorkerRequest& request, const OnProgress& on_progress,
                                                const ShouldStop& should_stop) {
    RIDGE_TRY(built, build_incumbent(request, should_stop));
    if (!built.problem.empty())
      return make_error(ErrorCode::kToolFailed, "the incumbent: {}: {}", built.problem, built.evidence.log);
    std::vector<record::ScreenRow> rows;
    int failed_in_turn = 0;  // configurations whose commands failed, since one passed
    for (std::size_t i = 0; i < request.candidates.size(); ++i) {
      const record::Candidate& candidate = request.candidates[i];
      record::ScreenRow row;
      row.candidate = candidate.id();
      row.defines = candidate.defines;
      if (should_stop && should_stop()) return make_error(ErrorCode::kTimeout, "the screening was stopped");
      if (out_of_time(request)) {
        row.outcome = Outcome::kAmbiguous;
        row.detail = "not measured: the time limit was reached";
      } else {
        if (on_progress) {
          on_progress({"screening", fmt::format("{} of {}", i + 1, request.candidates.size()),
                       static_cast<double>(i) / static_cast<double>(request.candidates.size())});
        }
        RIDGE_TRY(failed, look(candidate, labels_of(request.cases), should_stop, row));
        failed_in_turn = failed ? failed_in_turn + 1 : 0;
        if (failed_in_turn == 1) RIDGE_CHECK_OK(look_at_incumbent(request, row, should_stop));
      }
      rows.push_back(std::move(row));
    }
    if (failed_in_turn > 1) RIDGE_CHECK_OK(look_at_incumbent(request, rows.back(), should_stop));
    return rows;
  }

  // What a configuration failed at must succeed with the incumbent: where that fails too, a device or a network is
  // gone, and nothing is known of the configurations that failed.
  Status look_at_incumbent(const WorkerRequest& request, const record::ScreenRow& failed,
                           const ShouldStop& should_stop) {
    const auto gone = [&](const std::string& detail) {
      return make_error(ErrorCode::kToolFailed,
                        "a configuration of the sweep fails ({}), and so does the incumbent: {}", failed.detail,
                        detail);
    };
    RIDGE_TRY(build, build_incumbent(request, should_stop));
    if (!build.problem.empty()) return gone(build.problem + ": " + build.evidence.log);
    const auto measured = incumbent_.measure_in_order(labels_of(request.cases), true, should_stop);
    if (!measured) return gone(measured.error().message);
    for (const project::BenchTableRow& row : measured->rows) {
      if (!row.passed) return gone(fmt::format("{}: Check is {}", row.label, row.check));
    }
    return ok_status();
  }

  // Whether a command of the project failed with this configuration. An error is the harness's fault; what the
  // candidate does wrong stands in the row.
  Result<bool> look(const record::Candidate& candidate, const std::vector<std::string>& labels,
                    const ShouldStop& should_stop, record::ScreenRow& row) {
    const auto fails = [&](Outcome outcome, std::string detail) {
      row.outcome = outcome;
      row.detail = std::move(detail);
      return true;
    };
    if (const auto sources = record::configured_sources(candidate); !sources) {
      fails(Outcome::kCompile, sources.error().text());
      return false;  // nothing ran
    }
    // The next configuration gets a copy that this one did not change.
    const auto cheats = [&]() -> Result<bool> {
      const std::string offence = candidate_.offence();
      RIDGE_CHECK_OK(candidate_.make());
      return fails(Outcome::kCheat, offence);
    };
    RIDGE_CHECK_OK(candidate_.place(candidate));
    const Result<Built> build = build_in(candidate_, candidate, should_stop, &incumbent_.products());
    if (!candidate_.offence().empty()) return cheats();
    if (!build) return build.error();
    if (!build->problem.empty()) return fails(Outcome::kCompile, build->problem + ": " + build->evidence.log);
    const Result<ProjectCopy::Measured> measured = candidate_.measure(labels, true, should_stop);
    if (!candidate_.offence().empty()) return cheats();
    if (!measured) return measured.error();
    if (measured->outcome != Outcome::kPass) return fails(measured->outcome, measured->detail);
    std::vector<double> fractions;
    for (const project::BenchTableRow& one : measured->rows) {
      if (!one.passed) return fails(Outcome::kWrong, fmt::format("{}: Check is {}", one.label, one.check));
      row.latencies.push_back(one.latency);
      fractions.push_back(score_of(one));
    }
    row.score = stats::geomean(fractions);
    return false;
  }

  // What configurations are compared by: more is better.
  [[nodiscard]] double score_of(const project::BenchTableRow& row) const {
    if (project_.metric.quantity == record::Quantity::kColumn)
      return project_.metric.higher ? row.value : 1 / row.value;
    return bound_of(row.work) / row.latency;
  }
  // Seconds that the declared peak needs for this work.
  [[nodiscard]] double bound_of(double work) const { return work / (project_.peak * project_.metric_unit); }
  [[nodiscard]] record::Cost cost_of(double work) const {
    const record::Quantity quantity = quantity_of(project_);
    if (quantity == record::Quantity::kColumn) return {};  // neither FLOP nor bytes
    return quantity == record::Quantity::kBytes ? record::Cost{0, work} : record::Cost{work, 0};
  }

  // Places and builds both; an incumbent that does not build is the harness's fault and an Error.
  Result<record::Evaluation> prepare(const WorkerRequest& request, const ShouldStop& should_stop) {
    const record::Candidate &a = *request.incumbent, &b = request.candidates.front();
    record::Evaluation evaluation;
    evaluation.incumbent = a.id();
    evaluation.candidate = b.id();
    evaluation.timing = kProjectTiming;
    RIDGE_CHECK_OK(incumbent_.place(a));
    if (const auto sources = record::configured_sources(b); !sources) {
      evaluation.outcome = Outcome::kCompile;
      evaluation.detail = sources.error().text();
      return evaluation;
    }
    RIDGE_CHECK_OK(candidate_.place(b));
    RIDGE_TRY(old_build, build_in(incumbent_, a, should_stop));
    if (!old_build.problem.empty()) {
      return make_error(ErrorCode::kToolFailed, "the incumbent: {}: {}", old_build.problem, old_build.evidence.log);
    }
    RIDGE_TRY(build, build_in(candidate_, b, should_stop, &incumbent_.products()));
    evaluation.build = build.evidence;
    if (!build.problem.empty()) {
      evaluation.outcome = Outcome::kCompile;
      evaluation.detail = build.problem;
    }
    return evaluation;
  }

  // The project's focused test on the candidate.
  Status test(record::Evaluation& evaluation, const ShouldStop& should_stop) {
    return test_in(candidate_, evaluation, should_stop);
  }

  // What the build makes in the whole project. Once is enough: every later incumbent was held to it as a candidate.
  Status build_whole(const record::Candidate& incumbent, const ShouldStop& should_stop) {
    RIDGE_CHECK_OK(whole_->make());
    if (whole_products_) return ok_status();
    RIDGE_CHECK_OK(whole_->place(incumbent));
    RIDGE_TRY(build, build_in(*whole_, incumbent, should_stop));
    if (!build.problem.empty()) {
      return make_error(ErrorCode::kToolFailed, "the incumbent in the whole project: {}: {}", build.problem,
                        build.evidence.log);
    }
    whole_products_ = whole_->products();
    return ok_status();
  }

  // The same in the whole project, where candidates are otherwise built in a part of it.
  Status integrate(const WorkerRequest& request, record::Evaluation& evaluation, const ShouldStop& should_stop) {
    if (!whole_) return ok_status();
    const record::Candidate& candidate = request.candidates.front();
    RIDGE_CHECK_OK(build_whole(*request.incumbent, should_stop));
    RIDGE_CHECK_OK(whole_->place(candidate));
    RIDGE_TRY(build, build_in(*whole_, candidate, should_stop, &*whole_products_));
    if (build.problem.empty()) {
      RIDGE_CHECK_OK(test_in(*whole_, evaluation, should_stop));
    } else {
      evaluation.outcome = Outcome::kCompile;
      evaluation.detail = build.problem + ": " + build.evidence.log;
    }
    if (evaluation.outcome == Outcome::kPass) {
      evaluation.build.counts[kPassedWhole] = 1;
    } else {
      evaluation.detail = "in the whole project: " + evaluation.detail;
    }
    return ok_status();
  }

  Status test_in(ProjectCopy& copy, record::Evaluation& evaluation, const ShouldStop& should_stop) const {
    RIDGE_TRY(result, copy.test(should_stop));
    judge_test(result, evaluation);
    if (!copy.removed().empty()) evaluation.detail += "; " + removed_by(copy);
    return ok_status();
  }

  void judge_test(const ProcessResult& result, record::Evaluation& evaluation) const {
    using End = ProcessResult::End;
    const std::string said = last_lines(result.output + result.error_output);
    evaluation.outcome = result.end == End::kTimedOut    ? Outcome::kHang
                         : result.end == End::kSignalled ? Outcome::kCrash
                                                         : Outcome::kWrong;
    evaluation.detail = fmt::format("the test {}: {}", result.describe(), said);
    if (!result.succeeded()) return;
    const Result<TestCounts> counts = test_counts(project_, result.output + result.error_output);
    if (!counts) {
      evaluation.detail = counts.error().message;
    } else if (counts->failed != 0 || counts->passed <= 0) {
      evaluation.detail = fmt::format("{} tests passed, {} failed", counts->passed, counts->failed);
    } else {
      evaluation.outcome = Outcome::kPass;
      evaluation.detail = fmt::format("{} tests passed", counts->passed);
    }
  }

  [[nodiscard]] bool out_of_time(const WorkerRequest& request) const {
    const double used = std::chrono::duration<double>(Steady::now() - started_).count();
    return request.time_limit > 0 && used > request.time_limit - kLeastSeconds;
  }

  void note_rows(const std::vector<project::BenchTableRow>& rows, record::Evaluation& evaluation) const {
    for (const project::BenchTableRow& row : rows) {
      const std::string label = case_label(row.label);
      auto check = std::find_if(evaluation.checks.begin(), evaluation.checks.end(),
                                [&](const record::CheckRow& one) { return one.label == label; });
      if (check == evaluation.checks.end()) {
        check = evaluation.checks.insert(check, record::CheckRow{});
        check->label = label;
      }
      check->snr_db = row.noise_db.empty() ? NAN : row.noise_db.front().second;  // out_snr
      if (project_.min_snr_db > 0) {
        double worst = check->snr_db;
        for (const auto& [column, decibel] : row.noise_db) worst = decibel < worst ? decibel : worst;
        const double ratio = std::pow(10.0, (project_.min_snr_db - worst) / 20.0);
        check->max_error_ratio = std::max(check->max_error_ratio, std::isfinite(ratio) || worst > 0 ? ratio : INFINITY);
      }
      if (row.passed) {
        ++check->verified_calls;
        continue;
      }
      check->outcome = Outcome::kWrong;
      check->detail = "Check is " + row.check;
      evaluation.outcome = Outcome::kWrong;
      evaluation.detail = row.label + ": Check is " + row.check;
    }
  }

  // Charges a process of the candidate's benchmark that failed to the candidate. The same command must succeed with the
  // incumbent afterwards: where that fails too, a device or a network is gone, and it is an Error of the harness.
  Status charge(const ProjectCopy::Measured& failed, const WorkerRequest& request, bool fresh,
                record::Evaluation& evaluation, const ShouldStop& should_stop) {
    const auto incumbent = incumbent_.measure_in_order(labels_of(request.cases), fresh, should_stop, reference());
    if (!incumbent) {
      return make_error(ErrorCode::kToolFailed,
                        "the benchmark fails with the candidate ({}) and with the incumbent: {}", failed.detail,
                        incumbent.error().message);
    }
    evaluation.table = failed.table;
    if (evaluation.outcome != Outcome::kPass) return ok_status();  // a row said so already
    evaluation.outcome = failed.outcome;
    evaluation.detail = "the benchmark: " + failed.detail;
    return ok_status();
  }

  [[nodiscard]] ProjectCopy* reference() { return project_.reference.empty() ? nullptr : &reference_; }

  // Four processes. Stops early, without a session, when the candidate's process fails or its rows do not pass.
  Result<std::optional<record::Session>> session(const WorkerRequest& request, std::int64_t index,
                                                 const std::string& role, record::Evaluation& evaluation,
                                                 const ShouldStop& should_stop) {
    const std::vector<std::string> labels = labels_of(request.cases);
    const std::string order = order_of(index);
    std::vector<std::vector<project::BenchTableRow>> processes;
    const Steady::time_point began = Steady::now();
    for (const char arm : order) {
      // The incumbent's outputs were checked in every process when it was the candidate; here once for each request.
      const bool checked = arm == 'B' || (index == 0 && processes.size() < 2);
      RIDGE_TRY(
          measured,
          (arm == 'A' ? incumbent_ : candidate_).measure(labels, true, should_stop, checked ? reference() : nullptr));
      if (measured.outcome != Outcome::kPass && arm == 'A')
        return make_error(ErrorCode::kToolFailed, "the incumbent: {}", measured.detail);
      if (arm == 'B') note_rows(measured.rows, evaluation);
      if (arm == 'B') evaluation.table = measured.table;
      if (measured.outcome != Outcome::kPass) {
        RIDGE_CHECK_OK(charge(measured, request, true, evaluation, should_stop));
        return std::optional<record::Session>();
      }
      note_process(measured, arm);
      for (const project::BenchTableRow& row : measured.rows) {
        if (!row.passed && arm == 'A') {
          return make_error(ErrorCode::kToolFailed, "the incumbent fails {}: Check is {}", row.label, row.check);
        }
        if (!row.passed) return std::optional<record::Session>();
        if (arm == 'B') note_roofline(row, evaluation);
      }
      processes.push_back(std::move(measured.rows));
    }
    RIDGE_TRY(session, session_of(labels, order, processes, project_.metric));
    if (!session.missing.empty()) {
      evaluation.outcome = Outcome::kWrong;
      evaluation.detail = session.missing;
      return std::optional<record::Session>();
    }
    session.session.index = index;
    session.session.role = role;
    session.session.guards["began"] = std::chrono::duration<double>(began.time_since_epoch()).count();
    session.session.guards["wall"] = std::chrono::duration<double>(Steady::now() - began).count();
    return std::optional(std::move(session.session));
  }

  void note_roofline(const project::BenchTableRow& row, record::Evaluation& evaluation) const {
    record::RooflinePoint point;
    point.label = case_label(row.label);
    point.latency = row.latency;
    point.cost = cost_of(row.work);
    point.bound_time = bound_of(row.work);
    point.bound = quantity_of(project_) == record::Quantity::kFlops ? "compute" : "memory";
    point.fraction = point.bound_time / point.latency;
    if (std::isfinite(row.value)) point.value = row.value;
    for (const project::BenchTableRow::Direction& one : row.directions)
      point.directions.push_back({one.name, cost_of(one.work), bound_of(one.work), one.seconds});
    const auto known = std::find_if(evaluation.roofline.begin(), evaluation.roofline.end(),
                                    [&](const auto& one) { return one.label == point.label; });
    if (known == evaluation.roofline.end()) evaluation.roofline.push_back(std::move(point));
  }

  Status measure(const WorkerRequest& request, const std::string& role, record::Evaluation& evaluation,
                 const OnProgress& on_progress, const ShouldStop& should_stop) {
    const bool fixed = request.sessions > 0;
    const std::int64_t most = fixed ? request.sessions : request.protocol.max_sessions + 1;
    for (std::int64_t index = 0; index < most; ++index) {
      if (out_of_time(request)) break;
      if (on_progress) {
        on_progress({"measuring", fmt::format("session {} of at most {}", index + 1, most),
                     static_cast<double>(index) / static_cast<double>(most)});
      }
      const std::string part = fixed ? role : index == 0 ? "screen" : "confirm";
      RIDGE_TRY(one, session(request, index, part, evaluation, should_stop));
      if (!one) return ok_status();
      evaluation.sessions.push_back(std::move(*one));
      if (!fixed && options_.settled && options_.settled(request, evaluation.sessions)) break;
    }
    return ok_status();
  }

  // A gain that fresh tensors do not have is one of a cache that finds a tensor again. Both arms, so that what the
  // harness itself costs cancels. The fastest of several processes of each kind, taken in turn: disturbance only adds
  // time, and what a cache saves is there in every process. A gap that would be refused is looked at again.
  Status compare_fresh_with_reused(const WorkerRequest& request, record::Evaluation& evaluation,
                                   const ShouldStop& should_stop) {
    FastestRows reused[2], fresh[2];
    for (int look = 0; look < kFreshLooks; ++look) {
      for (int i = 0; i < 2 * kFreshProcesses; ++i) {
        RIDGE_CHECK_OK(note_fastest(i % 2, request, false, evaluation, should_stop, reused[i % 2]));
        RIDGE_CHECK_OK(note_fastest(i % 2, request, true, evaluation, should_stop, fresh[i % 2]));
        if (evaluation.outcome != Outcome::kPass) return ok_status();
      }
      const double before = ratio_of(fresh[0], reused[0]), now = ratio_of(fresh[1], reused[1]);
      evaluation.build.counts["incumbent_fresh_over_reused"] = before;
      evaluation.build.counts["fresh_over_reused"] = now;
      if (now / before <= kFreshTolerance) break;
    }
    return ok_status();
  }

  // One more process, of the incumbent (arm 0) or the candidate (1), whose rows must pass as in a session.
  Status note_fastest(int arm, const WorkerRequest& request, bool fresh, record::Evaluation& evaluation,
                      const ShouldStop& should_stop, FastestRows& fastest) {
    if (evaluation.outcome != Outcome::kPass) return ok_status();
    ProjectCopy& copy = arm == 0 ? incumbent_ : candidate_;
    RIDGE_TRY(measured, copy.measure(labels_of(request.cases), fresh, should_stop));
    if (measured.outcome != Outcome::kPass) {
      if (arm == 0) return make_error(ErrorCode::kToolFailed, "the incumbent: {}", measured.detail);
      return charge(measured, request, fresh, evaluation, should_stop);
    }
    const auto failed = std::ranges::find_if(measured.rows, [](const auto& row) { return !row.passed; });
    if (failed != measured.rows.end()) {
      if (arm == 0)
        return make_error(ErrorCode::kToolFailed, "the incumbent fails {}: Check is {}", failed->label, failed->check);
      note_rows(measured.rows, evaluation);
      evaluation.table = measured.table;
      return ok_status();
    }
    for (const project::BenchTableRow& row : measured.rows) {
      const auto at = fastest.emplace(row.label, row.latency).first;
      at->second = std::min(at->second, row.latency);
    }
    return ok_status();
  }

  // Both arms through the project's training steps: what a step costs without the change, and what remembers with it.
  Status train(record::Evaluation& evaluation, const ShouldStop& should_stop) {
    if (project_.training.empty()) return ok_status();
    RIDGE_TRY(before, incumbent_.train(should_stop));
    evaluation.incumbent_training = before;
    const Result<record::TrainingTrace> now = candidate_.train(should_stop);
    if (now) {
      evaluation.training = *now;
      return ok_status();
    }
    if (!candidate_.offence().empty() || (should_stop && should_stop())) return now.error();
    // As with the benchmark (charge): a device that is gone fails the incumbent, too.
    const Result<record::TrainingTrace> again = incumbent_.train(should_stop);
    if (!again) {
      return make_error(ErrorCode::kToolFailed, "the training fails with the candidate ({}) and with the incumbent: {}",
                        now.error().message, again.error().message);
    }
    evaluation.outcome = Outcome::kWrong;
    evaluation.detail = "training: " + now.error().message;
    return ok_status();
  }

  // A command that changed a file, or claims time that did not pass, is no fault of the harness: whatever else came
  // out, the evaluation is a CHEAT. Of the incumbent against itself it is the project that must say what its commands
  // write.
  Result<record::Evaluation> honest_evaluation(const WorkerRequest& request, const OnProgress& on_progress,
                                               const ShouldStop& should_stop) {
    processes_[0].clear();
    processes_[1].clear();
    if (whole_ && !whole_->offence().empty()) RIDGE_CHECK_OK(whole_->make());  // an earlier candidate's
    Result<record::Evaluation> evaluation = evaluate(request, on_progress, should_stop);
    std::string offence = candidate_.offence().empty() ? incumbent_.offence() : candidate_.offence();
    if (offence.empty() && whole_ && !whole_->offence().empty()) offence = "in the whole project: " + whole_->offence();
    if (offence.empty() && evaluation && evaluation->outcome == Outcome::kPass)
      offence = implausible_saving(project_.launches, processes_[0], processes_[1]);
    const record::Candidate& candidate = request.candidates.front();
    if (offence.empty() || candidate.id() == request.incumbent->id()) return evaluation;
    record::Evaluation cheat;
    if (evaluation) cheat = std::move(*evaluation);
    cheat.candidate = candidate.id();
    cheat.incumbent = request.incumbent->id();
    cheat.timing = kProjectTiming;
    cheat.outcome = Outcome::kCheat;
    cheat.detail = std::move(offence);
    return cheat;
  }

  void note_process(const ProjectCopy::Measured& measured, char arm) {
    TimedProcess process;
    process.wall = measured.wall;
    for (const project::BenchTableRow& row : measured.rows) process.claimed += row.seconds();
    processes_[arm == 'A' ? 0 : 1].push_back(process);
  }

  Result<record::Evaluation> evaluate(const WorkerRequest& request, const OnProgress& on_progress,
                                      const ShouldStop& should_stop) {
    // What a campaign fits later sessions into its budget by.
    auto since = [last = Steady::now()]() mutable {
      const Steady::time_point began = std::exchange(last, Steady::now());
      return std::chrono::duration<double>(last - began).count();
    };
    RIDGE_TRY(evaluation, prepare(request, should_stop));
    evaluation.seconds["build"] = since();
    if (evaluation.outcome != Outcome::kPass) return evaluation;
    RIDGE_CHECK_OK(test(evaluation, should_stop));
    if (evaluation.outcome != Outcome::kPass) return evaluation;
    RIDGE_CHECK_OK(integrate(request, evaluation, should_stop));
    evaluation.seconds["check"] = since();
    if (evaluation.outcome != Outcome::kPass) return evaluation;
    RIDGE_CHECK_OK(measure(request, "confirm", evaluation, on_progress, should_stop));
    evaluation.seconds["measure"] = since();
    if (evaluation.outcome != Outcome::kPass) return evaluation;
    if (!request.quick_look) {
      RIDGE_CHECK_OK(compare_fresh_with_reused(request, evaluation, should_stop));
      if (evaluation.outcome != Outcome::kPass) return evaluation;
      RIDGE_CHECK_OK(train(evaluation, should_stop));
      if (evaluation.outcome != Outcome::kPass) return evaluation;
    }
    const bool last = request.quick_look && evaluation.candidate != evaluation.incumbent;
    if (last && !project_.acceptance.empty()) {
      RIDGE_TRY(result, candidate_.acceptance(should_stop));
      evaluation.acceptance_exit_code = result.end == ProcessResult::End::kExited ? result.exit_code : -1;
    }
    return evaluation;
  }

  project::Project project_;
  ProjectOptions options_;
  ProjectCopy incumbent_, candidate_, reference_;
  std::optional<ProjectCopy> whole_;
  std::optional<ProjectCopy::Products> whole_products_;  // what the project's build makes there
  std::vector<TimedProcess> processes_[2];               // of the incumbent and of the candidate
  Steady::time_point started_;
};

}  // namespace

std::unique_ptr<Executor> make_project_executor(project::Project project, ProjectOptions options) {
  return std::make_unique<ProjectExecutor>(std::move(project), std::move(options));
}

Result<LookAtTable> look_at_table(const project::Project& project, const fs::path& workspace,
                                  const ShouldStop& should_stop) {
  ProjectCopy made(project, workspace);
  RIDGE_CHECK_OK(made.make());
  RIDGE_TRY(built, made.build(should_stop));
  if (!built.succeeded()) {
    return make_error(ErrorCode::kToolFailed, "the build {}: {}", built.describe(),
                      last_lines(built.error_output + built.output));
  }
  RIDGE_TRY(measured, made.measure_in_order(project.shapes, false, should_stop));
  RIDGE_TRY(contents, project::contents_of(measured.table, project));
  return LookAtTable{std::move(contents), std::move(measured.rows), std::move(measured.table)};
}

std::vector<HandoffCheck> check_handoff(const project::Project& project, const fs::path& workspace,
                                        const OnProgress& on_progress, const ShouldStop& should_stop,
                                        bool compile_only) {
  std::vector<HandoffCheck> checks;
  ProjectCopy made(project, workspace);
  const auto step = [&](const char* what, const std::function<Result<std::string>()>& attempt) {
    if (!checks.empty() && !checks.back().works) return;
    if (on_progress) on_progress({"checking", what, 0});
    const Result<std::string> result = attempt();
    const bool unavailable = !result && result.error().code == ErrorCode::kUnsupported;
    checks.push_back({what, result ? *result : result.error().text(), result.ok(), unavailable});
  };
  const auto succeeded = [](const Result<ProcessResult>& result) -> Result<std::string> {
    if (!result) return result.error();
    if (!result->succeeded()) {
      return make_error(ErrorCode::kToolFailed, "{}: {}", result->describe(),
                        last_lines(result->output + result->error_output));
    }
    return format_duration(result->wall);
  };
  const auto measured = [&](bool fresh) -> Result<std::string> {
    RIDGE_TRY(table, made.measure_in_order(project.shapes, fresh, should_stop));
    for (const project::BenchTableRow& row : table.rows) {
      if (!row.passed) return make_error(ErrorCode::kToolFailed, "{}: Check is {}", row.label, row.check);
      for (const auto& [column, decibel] : row.noise_db) {
        if (!(decibel < project.min_snr_db)) continue;
        return make_error(ErrorCode::kInvalidArgument,
                          "{}: {} is {:.4g} dB, below benchmark.min_snr_db = {:.4g}: every candidate like it would be "
                          "rejected; lower min_snr_db, or make the kernel more accurate first",
                          row.label, column, decibel, project.min_snr_db);
      }
      for (const project::BenchTableRow::Direction& one : row.directions) {
        const double rate = one.work / one.seconds / project.metric_unit;
        if (rate <= project.peak) continue;
        return make_error(ErrorCode::kInvalidArgument, "{}: {} = {:g} is above benchmark.peak = {:g}", row.label,
                          one.name == "forward" ? project.metric_column : project.backward_metric_column, rate,
                          project.peak);
      }
    }
    RIDGE_TRY(contents, project::contents_of(table.table, project));
    return fmt::format("{} shapes, header and Check as frozen; it gives {}, by default {}", table.rows.size(),
                       fmt::join(contents.metrics, ", "), project::default_metric(contents, project));
  };
  step("kernel files are there", [&]() -> Result<std::string> {
    RIDGE_TRY(candidate, project::baseline_of(project));
    return fmt::format("{} files, {}", candidate.sources.size(), candidate.short_id());
  });
  step("its tunables can be set", [&]() -> Result<std::string> {
    RIDGE_TRY(candidate, project::baseline_of(project));
    RIDGE_CHECK_OK(record::check_tunables(candidate));
    RIDGE_TRY(space, record::tune_space(candidate));
    return fmt::format("{} declared", space.tunables.size());
  });
  step("a private copy can be made", [&]() -> Result<std::string> {
    RIDGE_CHECK_OK(made.make());
    return workspace.string();
  });
  step("it builds", [&]() -> Result<std::string> {
    if (project.build.empty()) return std::string("nothing is built");
    const std::string& program = project.build.front();
    if (program.find('/') == std::string::npos && find_program(program).empty())
      return make_error(ErrorCode::kUnsupported, "{} is not installed on this machine", program);
    return succeeded(made.build(should_stop));
  });
  step("the build makes its artefact", [&]() -> Result<std::string> {
    RIDGE_TRY(digest, made.artifact());
    return (project.artifact.empty() ? "the sources themselves" : project.artifact) + " " + digest.substr(0, 12);
  });
  if (compile_only) return checks;
  step("the device says its name", [&] { return device_of(project); });
  step("the focused test passes and counts", [&]() -> Result<std::string> {
    const Result<ProcessResult> result = made.test(should_stop);
    RIDGE_CHECK_OK(succeeded(result));
    RIDGE_TRY(counts, test_counts(project, result->output + result->error_output));
    if (counts.failed != 0 || counts.passed <= 0) {
      return make_error(ErrorCode::kToolFailed, "{} passed, {} failed", counts.passed, counts.failed);
    }
    return fmt::format("{} passed, 0 failed", counts.passed);
  });
  step("the benchmark writes the frozen table", [&] { return measured(false); });
  step("the benchmark has a fresh mode", [&] { return measured(true); });
  ProjectCopy reference(project, fs::path(workspace.string() + "-reference"));
  if (!project.reference.empty()) {
    step("the reference process finds the outputs right", [&]() -> Result<std::string> {
      RIDGE_CHECK_OK(reference.make());
      RIDGE_CHECK_OK(reference.without_kernel());
      RIDGE_TRY(table, made.measure_in_order(project.shapes, true, should_stop, &reference));
      return fmt::format("{} shapes, in a folder without the kernel", table.rows.size());
    });
  }
  if (!project.training.empty()) {
    step("the training command writes its trace", [&]() -> Result<std::string> {
      RIDGE_TRY(trace, made.train(should_stop));
      if (trace.failed > 0) return make_error(ErrorCode::kToolFailed, "{} steps fail their Check", trace.failed);
      return fmt::format("{} steps, the kernel takes {:.1f} % of one, its work on the weight {:.1f} %", trace.steps,
                         100 * trace.kernel / trace.step, 100 * trace.weight / trace.step);
    });
  }
  if (!project.profile.empty()) {
    step("the profile command writes its report", [&]() -> Result<std::string> {
      RIDGE_TRY(report, made.profile({project.shapes.front()}, should_stop));
      return fmt::format("{} bytes; ridge profile --from reads such a file", report.size());
    });
  }
  return checks;
}

}  // namespace ridge::execute
