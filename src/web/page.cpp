#include "web/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "http/url.h"
#include "report/escape.h"
#include "report/html_parts.h"
#include "report/numbers.h"

namespace ridge::web {
namespace {

using report::escape_html;

// No script but the site's own file, nothing from elsewhere, whatever a text of a proposer says.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'";

std::string navigation(std::string_view here) {
  constexpr std::array<std::array<std::string_view, 2>, 3> kPlaces = {
      {{"/", "Campaigns"}, {"/device", "Devices"}, {"/library", "Library"}}};
  std::string html = "<nav aria-label=\"Pages\"><ul>\n";
  for (const auto& [path, words] : kPlaces) {
    html +=
        fmt::format("<li><a href=\"{}\"{}>{}</a></li>\n", path, path == here ? " aria-current=\"page\"" : "", words);
  }
  return html + "</ul></nav>\n";
}

std::string document(const Page& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{} – Ridgeline</title>\n"
      "<link rel=\"stylesheet\" href=\"/site.css\">\n<script src=\"/site.js\" defer=\"defer\"></script>\n</head>\n"
      "<body data-campaign=\"{}\" data-live=\"{}\">\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n"
      "<div class=\"bar\">\n<p class=\"brand\">Ridgeline</p>\n{}"
      "<p id=\"connection\" role=\"status\"></p>\n</div>\n<main id=\"main\" tabindex=\"-1\">\n{}</main>\n"
      "<footer><p>Keys: <kbd>/</kbd> search, <kbd>j</kbd> and <kbd>k</kbd> next and previous link of a list or round, "
      "<kbd>u</kbd> up. Everything here is drawn from the journals; nothing on a page is read back as truth.</p>"
      "</footer>\n</body>\n</html>\n",
      escape_html(page.title), escape_html(page.campaign), page.live ? "yes" : "no", navigation(page.here),
      page.main_html);
}

}  // namespace

http::Response respond(const Page& page, bool part, int status) {
  http::Response response;
  response.status = status;
  response.type = "text/html; charset=utf-8";
  response.headers["Content-Security-Policy"] = kPolicy;
  response.headers["Vary"] = "X-Ridge-Part";
  response.body = part ? page.main_html : document(page);
  return response;
}

http::Response problem_page(int status, std::string_view words, std::string_view hint) {
  Page page{fmt::format("{}", status), "", "", false, {}};
  page.main_html = fmt::format("<h1>{}</h1>\n", escape_html(words)) + report::paragraph(hint) + "<p>" +
                   link("/", "All campaigns") + "</p>\n";
  return respond(page, false, status);
}

std::string link(std::string_view path, std::string_view words) {
  return fmt::format("<a href=\"{}\">{}</a>", escape_html(path), escape_html(words));
}

std::string campaign_path(std::string_view id) { return "/campaign/" + http::encoded_part(id); }

std::string round_path(std::string_view id, std::int64_t round) {
  return fmt::format("{}/round/{}", campaign_path(id), round);
}

std::string minute(const std::string& time) {
  return time.size() < 16 ? time : time.substr(0, 10) + " " + time.substr(11, 5);
}

std::string speed_words(const record::CampaignCard& card) {
  if (!card.speedup) return "–";
  const record::Effect effect{"", *card.speedup, card.low.value_or(*card.speedup), card.high.value_or(*card.speedup), 0,
                              0};
  return fmt::format("{} ({})", report::ratio_text(effect.ratio), report::interval_text(effect));
}

std::string doing_html(const record::CampaignCard& card) {
  return fmt::format("<span data-doing=\"{}\">{}</span>", escape_html(card.id),
                     escape_html(card.doing.empty() ? fmt::format("{}: {}", card.phase, card.action) : card.doing));
}

std::string select_field(std::string_view name, std::string_view label, const std::vector<Choice>& choices,
                         std::string_view chosen) {
  std::string html = fmt::format("<label>{} <select name=\"{}\">", escape_html(label), name);
  for (const auto& [value, words] : choices) {
    html += fmt::format("<option value=\"{}\"{}>{}</option>", escape_html(value),
                        value == chosen ? " selected=\"selected\"" : "", escape_html(words));
  }
  return html + "</select></label>\n";
}

std::string pager(const std::string& address, std::int64_t page, std::int64_t pages, std::string_view words) {
  if (pages < 2) return {};
  const auto step = [&](std::int64_t to, std::string_view name) {
    if (to < 1 || to > pages || to == page) return fmt::format("<span class=\"off\">{}</span> ", name);
    return fmt::format("<a href=\"{}{}page={}\">{}</a> ", escape_html(address),
                       address.find('?') == std::string::npos ? "?" : "&amp;", to, name);
  };
  return fmt::format("<nav class=\"pager\" aria-label=\"Parts of the list\">{}{}<span>{}</span> {}{}</nav>\n",
                     step(1, "First"), step(page - 1, "Before"), escape_html(words), step(page + 1, "After"),
                     step(pages, "Last"));
}

std::int64_t page_number(const http::Request& request, std::int64_t pages, std::int64_t otherwise) {
  const std::string& text = request.parameter("page");
  std::int64_t page = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), page);
  return std::clamp<std::int64_t>(page, 1, std::max<std::int64_t>(pages, 1));
}

}  // namespace ridge::web
