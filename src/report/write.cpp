// JSON, the status screen and the files.
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "record/json.h"
#include "report/escape.h"
#include "report/numbers.h"
#include "report/shape_names.h"
#include "report/words.h"

namespace ridge::report {
namespace {

std::string round_line(const record::ReportRound& round) {
  std::string text =
      fmt::format("  {:>3}  {:<12}  {:<16}  {}\n", round.round, round_state(round),
                  not_measured(round) ? std::string() : result_words(round), one_line(round_title(round), 80));
  if (round.state != record::RoundState::kAccepted)
    text += fmt::format("       {}\n", one_line(round_reason(round), 110));
  return text;
}

}  // namespace

std::string json(const Model& model) { return record::to_pretty(model) + "\n"; }

// Terminals must not be steered by a candidate's title: every text of a proposer or a tool is cleaned.
std::string status_text(const Model& recorded, std::size_t last_rounds) {
  const Model model = with_short_labels(recorded, shape_names(recorded));
  std::string text = fmt::format("{}\n{}\n{}\n\n", one_line(model.spec.id, 120), one_line(headline(model), 160),
                                 one_line(model.detail, 300));
  for (const auto& [name, value] : headline_facts(model))
    text += fmt::format("  {:<30} {}\n", name, one_line(value, 160));
  if (model.spec.wall_budget > 0) {
    text += fmt::format("  {:<30} {} of {}\n", "Budget used", duration_text(model.active_seconds),
                        duration_text(model.spec.wall_budget));
  }
  if (const std::string words = replica_words(model); !words.empty())
    text += fmt::format("\n{}\n", one_line(words, 400));
  if (model.rounds.empty()) return text;
  const std::size_t shown = std::min(last_rounds, model.rounds.size());
  text +=
      shown < model.rounds.size() ? fmt::format("\nLast {} of {} rounds\n", shown, model.rounds.size()) : "\nRounds\n";
  for (std::size_t i = model.rounds.size() - shown; i < model.rounds.size(); ++i) text += round_line(model.rounds[i]);
  return text;
}

std::map<std::string, std::string> files(const Model& model) {
  return {{std::string(kHtmlPath), html(model)},
          {std::string(kMarkdownPath), markdown(model)},
          {std::string(kJsonPath), json(model)}};
}

Status write(const std::filesystem::path& campaign, const Model& model) {
  for (const auto& [path, content] : files(model)) RIDGE_CHECK_OK(write_file_durably(campaign / path, content));
  return ok_status();
}

}  // namespace ridge::report
