// The frame that every page has, and small parts that several share. Arguments named *_html are markup; every other
// text is escaped where it is put in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"
#include "record/web.h"
#include "report/report.h"

namespace ridge::web {

struct Page {
  std::string title;
  std::string here;      // the entry of the navigation that this page belongs to: "/", "/device", "/library"
  std::string campaign;  // the id whose changes concern it; empty: those of all
  bool live = true;      // drawn again when that changes
  std::string main_html;
};

// The whole document, or with `part` what is inside <main>: what the script asks for when something changed.
http::Response respond(const Page& page, bool part, int status = 200);
// A page that says what is wrong and where to go on.
http::Response problem_page(int status, std::string_view words, std::string_view hint = {});

std::string link(std::string_view path, std::string_view words);
std::string campaign_path(std::string_view id);
std::string round_path(std::string_view id, std::int64_t round);
// "2026-11-21T07:30:12Z" -> "2026-11-21 07:30"
std::string minute(const std::string& time);
// "8.91× (8.80 to 9.02)", or "–".
std::string speed_words(const record::CampaignCard& card);

// What a process does just now; the script writes what it hears in there.
std::string doing_html(const record::CampaignCard& card);

// One field of a choice: value and words.
using Choice = std::pair<std::string, std::string>;
std::string select_field(std::string_view name, std::string_view label, const std::vector<Choice>& choices,
                         std::string_view chosen);

// "1 to 100 of 1000" with links to the other parts; empty when there is one part only. `address` gets "?page=N".
std::string pager(const std::string& address, std::int64_t page, std::int64_t pages, std::string_view words);
// The number of a page in a query: 1 when it is none, never above `pages`.
std::int64_t page_number(const http::Request& request, std::int64_t pages, std::int64_t otherwise = 1);

}  // namespace ridge::web
