// Building blocks of the page. Arguments named *_html are markup; every other text is escaped here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "report/words.h"

namespace ridge::report {

std::string paragraph(std::string_view text, std::string_view style = {});
std::string code(std::string_view text);
std::string section(std::string_view id, std::string_view title, std::string_view body_html);
std::string figure(std::string_view caption, std::string_view chart_html);       // empty for an empty chart
std::string wide_figure(std::string_view caption, std::string_view chart_html);  // of the page's whole width
std::string fact_list(const Facts& facts);                                       // a definition list
std::string folded(std::string_view title, std::string_view body_html);          // <details>; empty for an empty body
// A coloured word with a sign of its own: ✓ accepted, ↺ rolled back, ...
std::string badge(std::string_view state);

// A table that becomes a stack of cards on a narrow screen, each value under its column's name.
class Table {
 public:
  struct Column {
    std::string name;
    bool numeric = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(const std::vector<std::string>& cells_html, std::string_view style = {});
  [[nodiscard]] std::string str() const;  // empty without rows

 private:
  std::vector<Column> columns_;
  std::string rows_html_;
};

std::string diff_html(std::string_view unified_diff);  // coloured by line
// The style sheet of every page.
std::string_view page_style();
// The first screen: answers.h.
std::string answers_html(const Model& model);
// Charts and tables of where the kernel stands. `shared`: what the short names of the shapes leave out.
std::string standing_html(const Model& model, const std::string& shared);
// Everything recorded of a round but its title, change and reason.
std::string round_record(const Model& model, const record::ReportRound& round);
// What a profiler saw: its sentence, the limits by what they may gain, the measured values; beside them those of
// `before`, where there was a profile before.
std::string profile_panel(const record::Profiled& profiled, const record::Profiled* before);
// The tunables that a round changed, each with what it is.
std::string changes_list(const record::ReportRound& round);
// An accepted round: what it changed, and behind two folds the source and everything that was recorded. Any other
// round: one line with the reason, the rest behind it.
std::string round_card(const Model& model, const record::ReportRound& round);

}  // namespace ridge::report
