#include "report/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "record/execution.h"
#include "report/ceilings.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/ratios.h"
#include "report/words.h"

namespace ridge::report {
namespace {

constexpr std::size_t kRoundsShown = 5;
constexpr std::size_t kTitleShown = 100;  // code points
constexpr std::size_t kDirectionShown = 240;
constexpr std::size_t kMostRounds = 119;  // that a campaign may have

Answer how_fast(const Model& model) {
  Answer answer{"answer-speed", "How fast?", "Not measured yet", {}, {}};
  if (!model.baseline) return answer;
  const SpeedUnit unit = speed_unit(model);
  const double before = geomean_speed_before(model), after = geomean_speed_after(model);
  const std::string over =
      fmt::format("geometric mean over {} shape{}", model.shapes.size(), model.shapes.size() == 1 ? "" : "s");
  if (!model.total || model.accepted == 0) {
    answer.key = fmt::format("{}, the baseline", unit.text(before));
    answer.lines = {fmt::format("No round has been accepted; the speed is the {}.", over)};
    return answer;
  }
  if (record::is_of_project(model.spec) && model.spec.primary_metric != "forward_tflops") {
    answer.lines.push_back(fmt::format("Ratios and speeds are those of {}.", model.spec.primary_metric));
  }
  answer.key = fmt::format("{} as fast as the baseline", ratio_text(model.total->ratio));
  answer.lines.push_back(fmt::format("From {} to {}, {}.", unit.text(before), unit.text(after), over));
  if (model.shapes.size() > 1) answer.lines.push_back(fmt::format("By shape: {}.", spread_words(model)));
  const std::string source =
      model.total_source == "final"
          ? fmt::format("measured afresh in {} paired sessions of best against baseline", model.total->sessions)
          : std::string("the product of the accepted rounds; not yet measured afresh");
  answer.lines.push_back(fmt::format("{} % interval of the mean: {}, {}.", plain(model.total->confidence * 100),
                                     interval_text(*model.total), source));
  if (const std::string words = replica_words(model); !words.empty()) answer.lines.push_back(words + ".");
  answer.lines.push_back(
      fmt::format("The chance of any false accept is at most {}.", plain_percent(model.spec.protocol.alpha)));
  return answer;
}

// "815 TFLOP/s (matrix_bf16)" for every kind of bound that the shapes have.
std::string ceilings_words(const Model& model) {
  std::vector<std::string> parts;
  for (const char* bound : {"compute", "memory"}) {
    const bool used =
        std::any_of(model.shapes.begin(), model.shapes.end(), [&](const auto& shape) { return shape.bound == bound; });
    const record::Ceiling* ceiling = measured_ceiling(model, bound);
    if (!used || ceiling == nullptr) continue;
    const std::string value =
        ceiling->unit == "FLOP/s" ? flops_unit(model).text(ceiling->value) : rate_text(ceiling->value, ceiling->unit);
    parts.push_back(fmt::format("{} ({})", value, ceiling->name));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

// A cited peak beside the ceiling that was measured for the same limit.
std::string cited_words(const Model& model, const CitedPeak& peak) {
  std::string text = fmt::format("The documents of this machine state {} for {}", peak.words, peak.metric);
  const bool compute = peak.unit == "FLOP/s";
  const bool all = std::all_of(model.shapes.begin(), model.shapes.end(),
                               [&](const auto& shape) { return shape.bound == (compute ? "compute" : "memory"); });
  const record::Ceiling* ceiling = measured_ceiling(model, compute ? "compute" : "memory");
  if (all && ceiling != nullptr && peak.value > 0) {
    text += fmt::format("; of that the kernel reaches {} and the measured ceiling {}",
                        percent_text(geomean_fraction_after(model) * ceiling->value / peak.value),
                        percent_text(ceiling->value / peak.value));
  }
  return text + ".";
}

std::string peer_words(const Model& model) {
  if (model.peers.empty()) {
    return "No other implementation was measured in this campaign; ridge bench with --candidate and --vs compares "
           "with one that ridge ops list names.";
  }
  std::vector<std::string> names;
  std::vector<double> ratios;
  bool paired = true;
  for (const auto& peer : model.peers) {
    ratios.push_back(peer.ratio);
    paired = paired && peer.ratio_low;
    if (std::find(names.begin(), names.end(), peer.name) == names.end()) names.push_back(peer.name);
  }
  return fmt::format("{} the speed of the best peer, {} ({} of {} shapes, {}).", ratio_text(geomean_of_usable(ratios)),
                     fmt::join(names, " or "), ratios.size(), model.shapes.size(),
                     paired ? "measured in turns" : "runs of its own, not paired");
}

Answer is_it_good(const Model& model) {
  Answer answer{"answer-good", "Is it good?", "Not measured yet", {}, {}};
  const double share = geomean_fraction_after(model);
  if (!model.baseline || !std::isfinite(share)) return answer;
  answer.key = fmt::format("{} of the measured ceiling", percent_text(share));
  if (const std::string ceilings = ceilings_words(model); !ceilings.empty()) {
    answer.lines.push_back(fmt::format("Measured on this machine: {}.", ceilings));
  }
  if (model.accepted > 0) {
    answer.lines.push_back(fmt::format("The baseline reached {}.", percent_text(geomean_fraction_before(model))));
  }
  for (const CitedPeak& peak : cited_peaks(model)) answer.lines.push_back(cited_words(model, peak));
  answer.lines.push_back(peer_words(model));
  return answer;
}

Answer what_changed(const Model& model) {
  Answer answer{"answer-changes", "What changed?", "No round yet", {}, {}};
  if (model.rounds.empty()) return answer;
  answer.key =
      fmt::format("{} of {} change{} kept", model.accepted, model.rounds.size(), model.rounds.size() == 1 ? "" : "s");
  std::vector<const record::ReportRound*> accepted;
  for (const auto& round : model.rounds) {
    if (round.state == record::RoundState::kAccepted) accepted.push_back(&round);
  }
  // The largest gains, in the order in which they came.
  const auto gain = [](const record::ReportRound* round) { return round->measured ? round->measured->ratio : 0.0; };
  std::stable_sort(accepted.begin(), accepted.end(), [&](auto* a, auto* b) { return gain(a) > gain(b); });
  const std::size_t left_out = accepted.size() - std::min(accepted.size(), kRoundsShown);
  accepted.resize(accepted.size() - left_out);
  std::sort(accepted.begin(), accepted.end(), [](auto* a, auto* b) { return a->round < b->round; });
  for (const auto* round : accepted) {
    answer.lines.push_back(fmt::format("Round {}: {} ({})", round->round, one_line(round_title(*round), kTitleShown),
                                       result_words(*round)));
  }
  if (left_out > 0) answer.lines.push_back(fmt::format("{} more with smaller gains.", left_out));
  answer.lines.push_back(fmt::format("{}.", rounds_words(model)));
  return answer;
}

Answer what_now(const Model& model) {
  Answer answer{"answer-next", "What now?", "", {}, next_commands(model)};
  const bool kernel = model.accepted > 0;
  if (model.state == "finished") {
    answer.key = kernel ? "Take the kernel, check the record" : "Nothing to take: the baseline stands";
  } else if (model.state == "created" || model.state == "empty") {
    answer.key = "Confirm it, then start it";
  } else if (model.state == "paused") {
    answer.key = "Paused: go on with resume";
  } else {
    answer.key = "Not finished";
  }
  if (model.state != "finished") answer.lines.push_back(model.detail);
  for (const record::OpenDirection& one : model.open_directions)
    answer.lines.push_back(one_line(fmt::format("Open: {} ({})", one.direction, one.rationale), kDirectionShown));
  if (model.baseline && model.open_directions.empty())
    answer.lines.push_back("No direction is known that was not measured.");
  return answer;
}

// NVRTC is a library: its line says what it was given and is no command for a shell.
std::string compile_words(const record::ReportKernel& kernel) {
  if (kernel.command.starts_with("nvrtc "))
    return fmt::format("how the best kernel, src/{}, was compiled by the library NVRTC ({})", kernel.path,
                       kernel.compiler);
  return fmt::format("compiled the best kernel, src/{}, with ridge/candidate.h beside it ({})", kernel.path,
                     kernel.compiler);
}

}  // namespace

std::vector<Answer> answers(const Model& model) {
  return {how_fast(model), is_it_good(model), what_changed(model), what_now(model)};
}

std::vector<Command> check_commands() {
  return {
      {"ridge campaign verify .", "checks the journal's hash chain, renders the campaign's files again and compares"},
      {"ridge campaign replay .", "computes every decision again from the raw samples"}};
}

std::vector<Command> next_commands(const Model& model) {
  std::vector<Command> commands;
  const std::string& state = model.state;
  if (state == "empty" || state == "created") {
    commands.push_back({"ridge campaign confirm .", "accepts manifest.yaml as it is now"});
    commands.push_back({"ridge campaign resume .", "starts it"});
  } else if (state == "paused") {
    commands.push_back({"ridge campaign resume .", "goes on where it stopped; nothing is measured twice"});
  } else if (state != "finished") {
    commands.push_back({"ridge campaign resume .", "goes on if its process was stopped; nothing is measured twice"});
  }
  if (model.accepted > 0) {
    if (!model.best.command.empty()) commands.push_back({model.best.command, compile_words(model.best)});
    if (record::is_of_project(model.spec)) {
      commands.push_back({"ridge campaign hand-back .", "puts the accepted rounds on a branch of the project"});
    } else {
      commands.push_back({"ridge campaign export-kernel .",
                          "prints the best kernel with its configuration and how to compile it; --out FILE writes it"});
    }
  }
  if (state != "finished") return commands;
  for (Command& command : check_commands()) commands.push_back(std::move(command));
  const std::string condition = model.termination ? model.termination->condition : "";
  if (condition == "T3") {
    commands.push_back(
        {fmt::format("ridge campaign extend . --max-iterations {}", std::min(2 * model.rounds.size(), kMostRounds)),
         "allows more rounds; then resume"});
  } else if (condition == "T5") {
    commands.push_back({"ridge campaign extend . --budget 10m", "gives it more time; then resume"});
  }
  return commands;
}

}  // namespace ridge::report
