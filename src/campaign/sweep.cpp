#include "campaign/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::campaign {
namespace {

// Of the incumbent's speed. Looks in turn are one or two per cent off on a machine with other work on it: a gain of two
// per cent is seldom taken for a loss of two.
constexpr double kWorthMeasuring = 0.98;

bool is_usable(const record::ScreenRow& row) {
  return row.outcome == record::Outcome::kPass && std::isfinite(row.score) && row.score > 0;
}

const record::ScreenRow* fastest_but(const std::vector<record::ScreenRow>& rows, const std::string& incumbent) {
  const record::ScreenRow* best = nullptr;
  for (const record::ScreenRow& row : rows) {
    if (row.candidate == incumbent || !is_usable(row)) continue;
    if (best == nullptr || row.score > best->score) best = &row;
  }
  return best;
}

bool is_hopeless(const record::ScreenRow& best, const record::ScreenRow& incumbent) {
  return best.score < kWorthMeasuring * incumbent.score;
}

bool offers(const record::Proposal& proposal, const std::string& id) {
  return std::ranges::any_of(proposal.candidates,
                             [&](const record::Candidate& candidate) { return candidate.id() == id; });
}

}  // namespace

std::optional<record::ScreenRow> take_incumbent(std::vector<record::ScreenRow>& rows, const std::string& incumbent,
                                                const record::Proposal& proposal) {
  const auto found = std::ranges::find(rows, incumbent, &record::ScreenRow::candidate);
  if (found == rows.end()) return std::nullopt;
  record::ScreenRow row = *found;
  if (!offers(proposal, incumbent)) rows.erase(found);
  return is_usable(row) ? std::optional(std::move(row)) : std::nullopt;
}

std::string worth_measuring(const record::Screened& screened, const record::Proposal& proposal,
                            const std::string& incumbent) {
  std::vector<record::ScreenRow> offered = screened.rows;
  std::erase_if(offered, [&](const record::ScreenRow& row) { return !offers(proposal, row.candidate); });
  const record::ScreenRow* best = fastest_but(offered, incumbent);
  if (best == nullptr || (screened.incumbent && is_hopeless(*best, *screened.incumbent))) return {};
  return best->candidate;
}

std::optional<std::string> why_not_measured(const record::Screened& screened) {
  if (!screened.incumbent || !screened.chosen.empty()) return std::nullopt;
  const record::ScreenRow* best = fastest_but(screened.rows, screened.incumbent->candidate);
  if (best == nullptr || !is_hopeless(*best, *screened.incumbent)) return std::nullopt;
  return fmt::format(
      "looked at in turn with the incumbent, the fastest of {} configurations reached {:.1f} % of its speed; less than "
      "{:.0f} % is not measured",
      screened.rows.size(), 100 * best->score / screened.incumbent->score, 100 * kWorthMeasuring);
}

}  // namespace ridge::campaign
