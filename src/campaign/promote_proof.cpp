#include "campaign/promote_proof.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "campaign/campaign.h"
#include "record/backend.h"
#include "record/kernel_description.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

void note(const ProofTools& tools, const std::string& line) {
  if (tools.note) tools.note(line);
}

Error not_proved(const std::string& what, const std::string& way_out) {
  return with_hint(make_error(ErrorCode::kConflict, "{}", what), way_out);
}

WorkerRequest request_for(WorkerTask task, const record::CampaignSpec& spec) {
  WorkerRequest request;
  request.task = task;
  request.backend = spec.backend;
  request.cases = spec.target_cases;
  request.protocol.threads = spec.protocol.threads;
  return request;
}

// The device of the campaign's backend here, and what a processor has.
struct Device {
  std::string model;
  std::vector<std::string> features;
};

Result<Device> device_here(const record::CampaignSpec& spec, const ProofTools& tools) {
  WorkerRequest request;
  request.task = WorkerTask::kDescribe;
  RIDGE_TRY(response, tools.ask(std::move(request)));
  const record::Environment here = response.environment.value_or(record::Environment{});
  const record::BackendInfo& backend = record::backend_of_name(spec.backend);
  return Device{here.fact(backend.device),
                backend.host ? split(here.fact("cpu.features"), ' ') : std::vector<std::string>()};
}

// What dispatch says of every shape of the campaign, in their order.
Result<std::vector<record::Explanation>> explained(const record::CampaignSpec& spec, const ProofTools& tools) {
  RIDGE_TRY(response, tools.ask(request_for(WorkerTask::kExplain, spec)));
  if (response.explanations.size() != spec.target_cases.size()) {
    return invalid("the worker explained {} of {} shapes", response.explanations.size(), spec.target_cases.size());
  }
  for (const record::Explanation& one : response.explanations) {
    if (one.forced_by.empty()) continue;
    return not_proved(fmt::format("{}: the choice is forced by {}", one.label, one.forced_by),
                      "unset it: a promotion is held against what the library chooses by itself");
  }
  return std::move(response.explanations);
}

// The winner's configuration, built as the library builds it.
Result<record::Candidate> configured(const PromotionPlan& plan, const ProofTools& tools) {
  record::Candidate candidate = plan.candidate;
  RIDGE_TRY(kernel, record::parse_kernel(candidate.sources[plan.kernel_at].text));
  const record::KernelConfig* config = kernel->find(plan.promotion.configuration);
  if (config == nullptr) return invalid("{} is not in the planned source", candidate.name);
  candidate.defines = config->values;
  if (record::runs_on_host(candidate.backend) && tools.flags) candidate.flags = tools.flags(config->instructions);
  return candidate;
}

// How many cases a subject computed and was right on; an error names the first that failed, or says that none was.
Result<std::int64_t> passed_in(const WorkerResponse& response, const std::string& name, const std::string& way_out) {
  std::int64_t passed = 0;
  for (const record::CheckReport& report : response.checks) {
    for (const record::CheckRow& row : report.rows) {
      if (row.outcome == record::Outcome::kNotClaimed || row.outcome == record::Outcome::kDeclined) continue;
      if (row.outcome != record::Outcome::kPass) {
        return not_proved(fmt::format("{} is {} on {}: {}", name, record::name_of(row.outcome), row.label, row.detail),
                          way_out);
      }
      ++passed;
    }
  }
  if (passed == 0) return not_proved(fmt::format("{}: no check case is in its scope", name), way_out);
  return passed;
}

// The operator's edge cases, as `ridge check` runs them.
Status check_candidate(const record::CampaignSpec& spec, const record::Candidate& candidate, const ProofTools& tools) {
  WorkerRequest request = request_for(WorkerTask::kCheck, spec);
  request.cases = {record::Case{candidate.op, {}}};
  request.candidates = {candidate};
  RIDGE_TRY(response, tools.ask(std::move(request)));
  RIDGE_TRY(passed, passed_in(response, candidate.name,
                              "nothing was changed; `ridge check` with the kernel's source "
                              "repeats it"));
  note(tools, fmt::format("{}: {} check cases passed", candidate.name, passed));
  return ok_status();
}

// Of a GPU's kernel: no spilled register, and no more registers than its description allows.
Status check_resources(const record::CampaignSpec& spec, const PromotionPlan& plan, const record::Candidate& candidate,
                       const ProofTools& tools) {
  if (record::runs_on_host(spec.backend)) return ok_status();
  WorkerRequest request = request_for(WorkerTask::kBuild, spec);
  request.candidates = {candidate};
  RIDGE_TRY(response, tools.ask(std::move(request)));
  if (response.builds.size() != 1) return invalid("the worker answered {} builds, not one", response.builds.size());
  const auto& counts = response.builds.front().counts;
  const auto registers = counts.find("registers");
  if (registers == counts.end() || !counts.contains("spill_bytes")) {
    return not_proved(
        fmt::format("the build of {} tells no registers: {}", candidate.name, response.builds.front().log),
        fmt::format("nothing was changed; ridge check {} --candidate FILE shows what the compiler says", candidate.op));
  }
  std::string refused;
  if (registers->second > static_cast<double>(plan.max_registers))
    refused = fmt::format("takes {} registers, {} are allowed", registers->second, plan.max_registers);
  for (const char* bad : {"spill_bytes", "stack_bytes", "wgmma_serialised"}) {
    const auto found = counts.find(bad);
    if (found != counts.end() && found->second > 0)
      refused += fmt::format("{}{} is {}", refused.empty() ? "" : ", ", bad, found->second);
  }
  if (!refused.empty()) {
    return not_proved(candidate.name + ": " + refused,
                      "nothing was changed; its ridge-kernel comment says how many registers it may take "
                      "(max_registers)");
  }
  note(tools, fmt::format("{}: {} registers of {}, no spills", candidate.name, registers->second, plan.max_registers));
  return ok_status();
}

// A row of a paired bench goes to the shape it is of.
Status take_row(const record::BenchRow& row, const std::string& over, record::PromotedShape& shape) {
  if (!row.ratio) {
    return make_error(ErrorCode::kConflict, "{} against {} on {}: {}", row.subject, over, row.label,
                      row.detail.empty() ? "not measured" : row.detail);
  }
  shape.ratio = *row.ratio;
  shape.low = row.ratio_low.value_or(*row.ratio);
  shape.high = row.ratio_high.value_or(*row.ratio);
  shape.latency = row.median;
  shape.sessions = row.sessions;
  shape.tuned = shape.low > 1;
  return ok_status();
}

// The configuration against what the library runs now, on the shapes where that is `over`, in paired sessions.
Status measure_against(const std::string& over, const record::CampaignSpec& spec, const record::Candidate& own,
                       const std::vector<record::Explanation>& before, const ProofOptions& options,
                       const ProofTools& tools, std::vector<record::PromotedShape>& shapes) {
  WorkerRequest request = request_for(WorkerTask::kBench, spec);
  request.cases.clear();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].over == over) request.cases.push_back(shapes[i].shape);
  }
  request.candidates = {own};
  request.implementations = {over};
  request.versus = over;
  const double part = static_cast<double>(request.cases.size()) / static_cast<double>(shapes.size());
  request.time_limit = options.seconds * part;
  RIDGE_TRY(response, tools.ask(std::move(request)));
  std::size_t taken = 0;
  for (const record::BenchRow& row : response.bench) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (row.subject != own.name || shapes[i].over != over || before[i].label != row.label) continue;
      RIDGE_CHECK_OK(take_row(row, over, shapes[i]));
      ++taken;
    }
  }
  if (taken == static_cast<std::size_t>(std::ranges::count(shapes, over, &record::PromotedShape::over)))
    return ok_status();
  return not_proved(fmt::format("{} against {}: {} of {} shapes were measured", own.name, over, taken,
                                std::ranges::count(shapes, over, &record::PromotedShape::over)),
                    "nothing was changed; give more --time-limit, or wait for a quiet machine");
}

// Where dispatch runs the configuration already, it is measured only if its source is another one, and needs no line.
Result<std::vector<record::PromotedShape>> measured(const record::CampaignSpec& spec, record::Candidate own,
                                                    bool new_source, const std::vector<record::Explanation>& before,
                                                    const ProofOptions& options, const ProofTools& tools) {
  const std::string name = own.name;
  if (new_source) own.name += "+changed";
  std::vector<record::PromotedShape> shapes(before.size());
  std::set<std::string> opponents;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (before[i].choice.empty()) return invalid("{}: dispatch has nothing that runs it", before[i].label);
    shapes[i].shape = spec.target_cases[i];
    shapes[i].over = before[i].runs.empty() ? before[i].choice : before[i].runs;
    if (new_source || shapes[i].over != name) opponents.insert(shapes[i].over);
  }
  for (const std::string& over : opponents) {
    RIDGE_CHECK_OK(measure_against(over, spec, own, before, options, tools, shapes));
  }
  for (record::PromotedShape& shape : shapes) shape.tuned = shape.tuned && shape.over != name;
  return shapes;
}

std::vector<record::TunedChoice> tuned_lines(const record::CampaignSpec& spec, const PromotionPlan& plan,
                                             const std::vector<record::Explanation>& before) {
  std::vector<record::TunedChoice> lines;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const record::PromotedShape& shape = plan.promotion.shapes[i];
    if (!shape.tuned) continue;
    record::TunedChoice line;
    line.device = before[i].device;
    line.driver = before[i].driver;
    line.libraries = plan.version;
    line.bucket = before[i].bucket;
    line.implementation = plan.promotion.implementation;
    line.configuration = plan.promotion.configuration;
    line.over = shape.over;
    line.ratio = shape.ratio;
    line.latency = shape.latency;
    line.rounds = shape.sessions;
    line.threads = spec.protocol.threads;
    lines.push_back(std::move(line));
  }
  return lines;
}

// Kernels that describe themselves, by source, as dispatch calls them for the campaign's operator.
std::map<std::string, std::string> implementations_in(const std::vector<record::Explanation>& explanations) {
  std::map<std::string, std::string> found;
  for (const record::Explanation& one : explanations) {
    for (const record::ExplainRow& row : one.rows) {
      if (!row.source.empty()) found.emplace(row.source, row.implementation);
    }
  }
  return found;
}

Status check_subject(const PromotionPlan& plan, const std::string& op, const std::string& name,
                     const ProofTools& tools) {
  WorkerRequest request;
  request.task = WorkerTask::kCheck;
  request.backend = plan.promotion.backend;
  request.cases = {record::Case{op, {}}};
  request.implementations = {name};
  RIDGE_TRY(response, tools.ask(std::move(request)));
  RIDGE_TRY(passed, passed_in(response, name,
                              fmt::format("everything is put back; `ridge campaign export-kernel` writes the kernel "
                                          "out, and ridge check {} --candidate FILE repeats it",
                                          op)));
  note(tools, fmt::format("{} of {} in the tree's build: {} check cases passed", name, op, passed));
  return ok_status();
}

}  // namespace

Result<PromotionPlan> prove_promotion(const fs::path& campaign, const fs::path& key, const fs::path& tree,
                                      execute::Git& repository, const ProofOptions& options, const ProofTools& tools) {
  RIDGE_TRY(state, promotable(campaign, key));
  const record::CampaignSpec& spec = state.spec();
  RIDGE_TRY(device, device_here(spec, tools));
  const Status here = check_device(state, device.model);
  if (!here && !options.elsewhere) return here.error();
  RIDGE_TRY(before, explained(spec, tools));
  PromotionNames names = options.names;
  names.instructions = record::most_instructions(device.features);
  names.implementations = implementations_in(before);
  RIDGE_TRY(plan, plan_promotion(state, tree, names));
  RIDGE_CHECK_OK(check_clean(plan.promotion, repository));
  if (!here) {
    note(tools, fmt::format("Not checked and not measured: {}. The lines of the tuned table follow from the "
                            "measurement.",
                            here.error().message));
    RIDGE_CHECK_OK(add_changelog_line(plan, tree));
    return plan;
  }
  RIDGE_TRY(candidate, configured(plan, tools));
  RIDGE_CHECK_OK(check_candidate(spec, candidate, tools));
  RIDGE_CHECK_OK(check_resources(spec, plan, candidate, tools));
  RIDGE_TRY(shapes, measured(spec, candidate, plan.promotion.new_source, before, options, tools));
  plan.promotion.shapes = std::move(shapes);
  RIDGE_CHECK_OK(add_tuned_lines(plan, tree, tuned_lines(spec, plan, before)));
  RIDGE_CHECK_OK(add_changelog_line(plan, tree));
  RIDGE_CHECK_OK(check_clean(plan.promotion, repository));
  return plan;
}

Status check_built(const PromotionPlan& plan, const ProofTools& tools) {
  const record::Promotion& promotion = plan.promotion;
  const std::string name = promotion.implementation + "/" + promotion.configuration;
  RIDGE_CHECK_OK(check_subject(plan, promotion.op, name, tools));
  WorkerRequest request;
  request.task = WorkerTask::kExplain;
  request.backend = promotion.backend;
  for (const record::PromotedShape& shape : promotion.shapes) {
    if (shape.tuned) request.cases.push_back(shape.shape);
  }
  if (!request.cases.empty()) {
    RIDGE_TRY(response, tools.ask(request));
    for (const record::Explanation& one : response.explanations) {
      if (one.runs == name) continue;
      note(tools, fmt::format("{}: dispatch still runs {}; a table of yours goes before those that ship (`ridge tune "
                              "--forget`)",
                              one.label, one.runs));
    }
  }
  if (!promotion.new_source) return ok_status();
  request.cases.clear();
  for (const std::string& op : plan.ops) {
    if (record::runs_on_host(promotion.backend)) {  // the kernel's name, with the configurations that it chooses itself
      RIDGE_CHECK_OK(check_subject(plan, op, promotion.implementation, tools));
      continue;
    }
    request.cases = {record::Case{op, {}}};
    RIDGE_TRY(response, tools.ask(request));
    for (const auto& [source, implementation] : implementations_in(response.explanations)) {
      if ("src/" + source == promotion.kernel) RIDGE_CHECK_OK(check_subject(plan, op, implementation, tools));
    }
  }
  return ok_status();
}

}  // namespace ridge::campaign
