#include "report/html_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/escape.h"
#include "style.h"

namespace ridge::report {

std::string paragraph(std::string_view text, std::string_view style) {
  if (text.empty()) return {};
  if (style.empty()) return fmt::format("<p>{}</p>\n", escape_html(text));
  return fmt::format("<p class=\"{}\">{}</p>\n", style, escape_html(text));
}

std::string code(std::string_view text) { return fmt::format("<code>{}</code>", escape_html(text)); }

std::string section(std::string_view id, std::string_view title, std::string_view body_html) {
  return fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-h\">\n<h2 id=\"{0}-h\">{1}</h2>\n{2}</section>\n", id,
                     escape_html(title), body_html);
}

std::string figure(std::string_view caption, std::string_view chart_html) {
  if (chart_html.empty()) return {};
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n", escape_html(caption), chart_html);
}

std::string wide_figure(std::string_view caption, std::string_view chart_html) {
  if (chart_html.empty()) return {};
  return fmt::format("<figure class=\"wide-figure\">\n<figcaption>{}</figcaption>\n{}</figure>\n", escape_html(caption),
                     chart_html);
}

std::string fact_list(const Facts& facts) {
  if (facts.empty()) return {};
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  }
  return html + "</dl>\n";
}

std::string folded(std::string_view title, std::string_view body_html) {
  if (body_html.empty()) return {};
  return fmt::format("<details class=\"fold\"><summary>{}</summary>\n{}</details>\n", escape_html(title), body_html);
}

std::string badge(std::string_view state) {
  constexpr std::array<std::array<std::string_view, 3>, 11> kBadges = {{{"accepted", "good", "✓"},
                                                                        {"pass", "good", "✓"},
                                                                        {"finished", "good", "✓"},
                                                                        {"fail", "bad", "✗"},
                                                                        {"rolled back", "rejected", "↺"},
                                                                        {"not settled", "rejected", "?"},
                                                                        {"not measured", "open", "–"},
                                                                        {"inconclusive", "rejected", "?"},
                                                                        {"paused", "rejected", "‖"},
                                                                        {"unfinished", "open", "…"},
                                                                        {"running", "open", "…"}}};
  for (const auto& [name, style, sign] : kBadges) {
    if (name == state) {
      return fmt::format("<span class=\"badge {}\"><span aria-hidden=\"true\">{} </span>{}</span>", style, sign, name);
    }
  }
  return fmt::format("<span class=\"badge\">{}</span>", escape_html(state));
}

std::string_view page_style() { return kPageStyle; }

std::string diff_html(std::string_view unified_diff) {
  std::string html = "<pre class=\"diff\">";
  while (!unified_diff.empty()) {
    const std::string_view line = unified_diff.substr(0, unified_diff.find('\n'));
    unified_diff.remove_prefix(std::min(line.size() + 1, unified_diff.size()));
    const std::string_view style = line.starts_with("+++ ") || line.starts_with("--- ") ? "file"
                                   : line.starts_with("@@")                             ? "hunk"
                                   : line.starts_with('+')                              ? "add"
                                   : line.starts_with('-')                              ? "del"
                                                                                        : "";
    const std::string text = escape_html(line) + "\n";
    html += style.empty() ? text : fmt::format("<span class=\"{}\">{}</span>", style, text);
  }
  return html + "</pre>\n";
}

void Table::row(const std::vector<std::string>& cells_html, std::string_view style) {
  rows_html_ += style.empty() ? std::string("<tr>") : fmt::format("<tr class=\"{}\">", style);
  for (std::size_t i = 0; i < cells_html.size() && i < columns_.size(); ++i) {
    rows_html_ += fmt::format("<td{} data-label=\"{}\"><div>{}</div></td>", columns_[i].numeric ? " class=\"num\"" : "",
                              escape_html(columns_[i].name), cells_html[i]);
  }
  rows_html_ += "</tr>\n";
}

std::string Table::str() const {
  if (rows_html_.empty()) return {};
  std::string head;
  for (const Column& column : columns_) {
    head +=
        fmt::format("<th scope=\"col\"{}>{}</th>", column.numeric ? " class=\"num\"" : "", escape_html(column.name));
  }
  return fmt::format("<div class=\"scroll\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
                     head, rows_html_);
}

}  // namespace ridge::report
