#include "campaign/kernel_export.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "record/configuration.h"
#include "record/execution.h"

namespace ridge::campaign {
namespace {

// Without the -D of tunables, whose values the source now says itself.
std::string compile_line(const record::Candidate& best, const std::string& command) {
  std::string line;
  for (const std::string& word : split(command, ' ')) {
    const auto says = [&](const auto& define) { return word == fmt::format("-D{}={}", define.first, define.second); };
    if (std::any_of(best.defines.begin(), best.defines.end(), says)) continue;
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

std::string configuration_of(const record::Candidate& candidate) {
  std::string text;
  for (const auto& [name, value] : candidate.defines)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

const Round* round_of(const State& state, std::int64_t number) {
  const auto found = std::find_if(state.rounds.begin(), state.rounds.end(),
                                  [&](const Round& round) { return round.number == number; });
  return found == state.rounds.end() ? nullptr : &*found;
}

const record::Effect* final_suite(const State& state) {
  const bool measured = state.final_measurement && !state.final_measurement->effects.empty();
  return measured ? &state.final_measurement->effects.front() : nullptr;
}

std::string speed_text(const State& state) {
  const record::Effect* suite = final_suite(state);
  if (suite == nullptr)
    return fmt::format("{:.3f}x the baseline, the product of the accepted rounds", speedup_of(state));
  return fmt::format("{:.3f}x the baseline ({:.0f} % interval {:.3f}x to {:.3f}x over {} sessions)", suite->ratio,
                     100 * suite->confidence, suite->low, suite->high, suite->sessions);
}

// Every line behind the comment mark of the file's language; a text of a proposer cannot end the comment.
std::string header_of(const State& state, const KernelExport& kernel, const std::string& path) {
  const record::CampaignSpec& spec = state.spec();
  const Round* round = round_of(state, kernel.round);
  std::string shapes;
  for (const record::Case& one : spec.target_cases) shapes += fmt::format("\n  {}", one.label());
  std::string text =
      fmt::format("{} on {} ({}), from round {} of the campaign {}: {}\n", spec.op, spec.backend, spec.gpu,
                  kernel.round, spec.id, round == nullptr ? "" : round->last().proposal.hypothesis.title);
  text += fmt::format("speed          {}\n", speed_text(state));
  text += fmt::format("configuration  {}\n", kernel.configuration.empty() ? "all defaults" : kernel.configuration);
  text += fmt::format("compile        {}\n", kernel.compile.empty() ? "by the project's own build" : kernel.compile);
  text += fmt::format("compiler       {}\n", state.incumbent.build.compiler);
  if (kernel.files.front().text.find("#include \"ridge/") != std::string::npos) {
    text += "headers        ridge/*.h are Ridgeline's: add -I with its include folder\n";
  }
  text += fmt::format("candidate      {}\nobject         {}\n", kernel.candidate, state.incumbent.build.artifact);
  if (!state.incumbent.commit.empty()) text += fmt::format("commit         {}\n", state.incumbent.commit);
  text += fmt::format("journal        {} events, last hash {}\nshapes{}", state.events, state.last_hash, shapes);
  const std::string_view mark = path.ends_with(".py") ? "#" : "//";
  std::string header;
  for (const std::string& line : split(text, '\n')) {
    std::string plain = line;
    std::replace_if(
        plain.begin(), plain.end(), [](unsigned char c) { return c < ' ' || c == '\\'; }, ' ');
    header += fmt::format("{} {}\n", mark, trimmed(plain, " ").empty() ? "" : plain);
  }
  return header + "\n";
}

}  // namespace

double speedup_of(const State& state) {
  const record::Effect* suite = final_suite(state);
  return suite == nullptr ? state.product_of_accepted : suite->ratio;
}

Result<KernelExport> export_kernel(const State& state) {
  if (!state.baseline_committed || state.incumbent.round <= 1) {
    return with_hint(make_error(ErrorCode::kConflict, "{}: no round is accepted, the baseline stands", state.spec().id),
                     fmt::format("the baseline is {}", state.spec().kernel_source));
  }
  const record::Candidate& best = state.incumbent.candidate;
  KernelExport kernel;
  RIDGE_TRY(files, record::configured_sources(best));
  kernel.files = std::move(files);
  const bool own_build = record::is_of_project(state.spec());
  if (!own_build) kernel.compile = compile_line(best, state.incumbent.build.command);
  kernel.configuration = configuration_of(best);
  kernel.round = state.incumbent.round;
  kernel.speedup = speedup_of(state);
  kernel.measured = final_suite(state) != nullptr;
  kernel.candidate = best.id();
  record::SourceFile& first = kernel.files.front();
  first.text = header_of(state, kernel, first.path) + first.text;
  return kernel;
}

}  // namespace ridge::campaign
