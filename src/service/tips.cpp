#include "service/tips.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "campaign/advice.h"
#include "knowledge/pages.h"

namespace ridge::service {
namespace {

constexpr std::string_view kLimits[] = {"compute", "memory", "latency", "resource", "launch"};

// The device's architecture stands for it; a processor is known by its own name and as x86.
Result<knowledge::Route> asked_route(const Context& context, const TipsRequest& o) {
  knowledge::Route route;
  route.op = o.op;
  if (!o.device.empty())
    route.devices = campaign::device_words(context.data_directory, o.device, {}, o.device == "cpu" ? "cpu" : "");
  if (!o.language.empty()) route.languages = {o.language};
  route.bottleneck = o.bottleneck;
  const bool known = o.bottleneck.empty() || std::ranges::find(kLimits, o.bottleneck) != std::end(kLimits);
  if (known) return route;
  return with_hint(invalid("--bottleneck {} is not known", o.bottleneck),
                   fmt::format("one of {}", fmt::join(kLimits, ", ")));
}

}  // namespace

Result<TipsFound> search_tips(const Context& context, const TipsRequest& o) {
  RIDGE_TRY(route, asked_route(context, o));
  if (o.limit < 1) return invalid("--limit {}: 1 or more are possible", o.limit);
  RIDGE_TRY(pages, knowledge::read_pages(context.data_directory / "knowledge", context.knowledge));
  RIDGE_TRY(hits, knowledge::search(pages.entries, o.experience, o.words, route));
  TipsFound found{std::move(hits), 0};
  found.all = found.hits.size();
  if (found.all > static_cast<std::size_t>(o.limit)) found.hits.resize(static_cast<std::size_t>(o.limit));
  return found;
}

Result<record::KnowledgeEntry> find_page(const Context& context, const std::string& id) {
  RIDGE_TRY(pages, knowledge::read_pages(context.data_directory / "knowledge", context.knowledge));
  const auto found = std::ranges::find(pages.entries, id, &record::KnowledgeEntry::id);
  if (found != pages.entries.end()) return std::move(*found);
  return with_hint(make_error(ErrorCode::kNotFound, "no page has an entry {}", id), "ridge tips search lists them");
}

}  // namespace ridge::service
