#include "web/site.h"

#include <fmt/format.h>

#include <charconv>

#include "assets.h"
#include "base/error.h"
#include "http/access.h"
#include "record/json.h"
#include "report/html_parts.h"
#include "service/campaigns.h"
#include "web/campaign_page.h"
#include "web/device_page.h"
#include "web/overview.h"
#include "web/page.h"

namespace ridge::web {
namespace {

constexpr std::size_t kMostKept = 50;  // drawings of pages

int status_of(const Error& error) {
  if (error.code == ErrorCode::kNotFound) return 404;
  if (error.code == ErrorCode::kInvalidArgument) return 400;
  if (error.code == ErrorCode::kConflict) return 409;
  return 500;
}

http::Response refused(const Error& error) { return problem_page(status_of(error), error.message, error.hint); }

bool wants_part(const http::Request& request) { return request.header("x-ridge-part") == "main"; }

Result<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size())
    return make_error(ErrorCode::kNotFound, "\"{}\" is no round", text);
  return number;
}

http::Response asset(std::string_view type, std::string body) {
  http::Response response;
  response.type = type;
  response.body = std::move(body);
  return response;
}

http::ServerOptions with_pages(http::ServerOptions options) {
  options.refusal = [](int status, const std::string& words) { return problem_page(status, words); };
  return options;
}

std::string names_of(const std::vector<std::filesystem::path>& roots) {
  std::vector<std::string> names;
  for (const std::filesystem::path& root : roots) names.push_back(root.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Site::Site(SiteOptions options)
    : options_(std::move(options)),
      events_(std::make_shared<http::EventLog>(http::random_token().substr(0, 8))),
      store_(options_.roots,
             [events = events_](const record::CampaignCard& card, bool only_doing) {
               if (only_doing && card.state == "running") {
                 events->publish("doing", card.id + "\n" + card.doing);
               } else {
                 events->publish("campaign", card.id);
               }
             }),
      server_(with_pages(options_.server)) {
  declare_pages();
  if (options_.allow_control && options_.control) declare_control();
}

Site::~Site() { stop(); }

Status Site::start() {
  for (const std::filesystem::path& root : options_.roots) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(root, ignored))
      return with_hint(make_error(ErrorCode::kNotFound, "{} is no folder", root.string()),
                       "name campaigns, or folders that hold campaigns");
  }
  RIDGE_CHECK_OK(server_.start());
  store_.start();
  return ok_status();
}

void Site::stop() { server_.stop(); }

void Site::declare_pages() {
  using http::Request;
  server_.route("GET", "/", [this](const Request& request) { return overview(request); });
  server_.route("GET", "/compare", [this](const Request& request) { return compare(request); });
  server_.route("GET", "/campaign/*", [this](const Request& request) { return campaign(request); });
  server_.route("GET", "/campaign/*/round/*", [this](const Request& request) { return round(request); });
  server_.route("GET", "/campaign/*/round/*/samples",
                [this](const Request& request) { return samples(request, false); });
  server_.route("GET", "/campaign/*/round/*/samples.json",
                [this](const Request& request) { return samples(request, true); });
  server_.route("GET", "/campaign/*/rules", [this](const Request& request) { return rules(request); });
  server_.route("GET", "/campaign/*/round/*/rules", [this](const Request& request) { return rules(request); });
  server_.route("GET", "/device",
                [this](const Request& request) { return respond(devices_page(store_.cards()), wants_part(request)); });
  server_.route("GET", "/device/*", [this](const Request& request) { return device(request); });
  server_.route("GET", "/library", [this](const Request& request) { return library(request); });
  server_.route("GET", "/campaigns.json", [this](const Request& request) {
    return http::json_response(record::to_pretty(chosen_cards(store_.cards(), request)) + "\n");
  });
  server_.route("GET", "/events", [this](const Request&) {
    http::Response response;
    response.events = events_;
    response.from_now = true;
    response.first = "following";
    return response;
  });
  server_.route("GET", "/site.css", [](const Request&) {
    return asset("text/css; charset=utf-8", std::string(report::page_style()) + kSiteStyle);
  });
  server_.route("GET", "/site.js", [](const Request&) { return asset("text/javascript; charset=utf-8", kSiteScript); });
}

void Site::declare_control() {
  for (const char* what : {"pause", "stop", "resume", "extend", "propose"}) {
    server_.route("POST", fmt::format("/campaign/*/{}", what),
                  [this, what](const http::Request& request) { return control(request, what); });
  }
}

// Many clients that follow one campaign ask for the same page at the same time: it is drawn once for each version.
http::Response Site::cached(const http::Request& request, const std::string& id,
                            const std::function<Result<Page>()>& make) {
  const Result<record::CampaignCard> card = store_.card(id);
  if (!card) return refused(card.error());
  const std::string key = fmt::format("{}?{} {}", request.path, request.parameter("page"), wants_part(request));
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(key);
    if (found != kept_.end() && found->second.version == card->version) return found->second.response;
  }
  const Result<Page> page = make();
  if (!page) return refused(page.error());
  http::Response response = respond(*page, wants_part(request));
  const std::lock_guard lock(mutex_);
  if (kept_.size() >= kMostKept) kept_.clear();
  kept_[key] = {card->version, response};
  return response;
}

http::Response Site::overview(const http::Request& request) {
  const std::vector<record::CampaignCard> cards = store_.cards();
  if (store_.single() && cards.size() == 1 && request.query.empty() && !wants_part(request))
    return http::see_other("/campaign/" + cards.front().id);
  return respond(overview_page(cards, request, names_of(options_.roots)), wants_part(request));
}

http::Response Site::compare(const http::Request& request) {
  std::vector<record::CampaignCard> cards;
  for (const std::string& id : request.parameters("c")) {
    const Result<record::CampaignCard> card = store_.card(id);
    if (!card) return refused(card.error());
    cards.push_back(*card);
  }
  return respond(compare_page(cards), wants_part(request));
}

http::Response Site::campaign(const http::Request& request) {
  const std::string& id = request.captured[0];
  return cached(request, id, [&]() -> Result<Page> {
    RIDGE_TRY(card, store_.card(id));
    if (card.op.empty() && card.state != "reading") return broken_page(card);
    Page page;
    const Status viewed = store_.view(id, [&](const report::Model& model, const journal::State&) {
      page = campaign_page(card, model, request, options_.allow_control);
    });
    if (viewed) return page;
    if (viewed.error().code == ErrorCode::kNotFound) return viewed.error();
    card.state = card.state == "reading" ? "unreadable" : card.state;
    if (card.problem.empty()) card.problem = viewed.error().text();
    return broken_page(card);
  });
}

http::Response Site::round(const http::Request& request) {
  const std::string& id = request.captured[0];
  return cached(request, id, [&]() -> Result<Page> {
    RIDGE_TRY(number, whole_number(request.captured[1]));
    RIDGE_TRY(card, store_.card(id));
    Result<Page> page = Error{};
    RIDGE_CHECK_OK(store_.view(id, [&](const report::Model& model, const journal::State& state) {
      page = round_page(card, model, state, number);
    }));
    return page;
  });
}

http::Response Site::samples(const http::Request& request, bool as_json) {
  const std::string& id = request.captured[0];
  const Result<std::int64_t> number = whole_number(request.captured[1]);
  if (!number) return refused(number.error());
  const Result<record::CampaignCard> card = store_.card(id);
  if (!card) return refused(card.error());
  http::Response response;
  const Status viewed = store_.view(id, [&](const report::Model&, const journal::State& state) {
    if (as_json) {
      Result<std::string> text = samples_json(state, *number, request);
      response = text ? http::json_response(std::move(*text)) : refused(text.error());
    } else {
      const Result<Page> page = samples_page(*card, state, *number, request);
      response = page ? respond(*page, wants_part(request)) : refused(page.error());
    }
  });
  return viewed ? response : refused(viewed.error());
}

http::Response Site::rules(const http::Request& request) {
  std::optional<std::int64_t> round;
  if (request.captured.size() > 1) {
    const Result<std::int64_t> number = whole_number(request.captured[1]);
    if (!number) return refused(number.error());
    round = *number;
  }
  const Result<record::CampaignCard> card = store_.card(request.captured[0]);
  if (!card) return refused(card.error());
  const Result<record::RuleTable> table = service::campaign_rules(*store_.folder(card->id), round);
  return table ? respond(rules_page(*card, *table, round), wants_part(request)) : refused(table.error());
}

http::Response Site::device(const http::Request& request) {
  const std::string& id = request.captured[0];
  return cached(request, id, [&]() -> Result<Page> {
    RIDGE_TRY(card, store_.card(id));
    Page page;
    RIDGE_CHECK_OK(store_.view(id, [&](const report::Model& model, const journal::State& state) {
      page = device_page(card, model, state, options_.data);
    }));
    return page;
  });
}

http::Response Site::library(const http::Request& request) {
  const std::lock_guard lock(mutex_);
  if (!library_) library_ = std::make_unique<Library>(options_.library ? options_.library() : Library{});
  return respond(library_page(*library_), wants_part(request));
}

http::Response Site::control(const http::Request& request, const std::string& what) {
  const Result<std::filesystem::path> folder = store_.folder(request.captured[0]);
  const auto failed = [](const Error& error) { return http::text_response(status_of(error), error.text()); };
  if (!folder) return failed(folder.error());
  const Result<record::ControlRequest> asked =
      record::parse_record<record::ControlRequest>(request.body.empty() ? "{}" : request.body, "request");
  if (!asked) return http::text_response(400, asked.error().text());
  const Result<std::string> said = options_.control(what, *folder, *asked);
  return said ? http::text_response(200, *said) : failed(said.error());
}

}  // namespace ridge::web
