// ridge tips: what is known about making such a kernel faster: the knowledge pages, and tips of earlier campaigns.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "campaign/advice.h"
#include "campaign_run.h"
#include "knowledge/pages.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct TipsOptions {
  std::vector<std::string> words;
  std::string op, device, language, bottleneck, id, experience = "campaigns/experience";
  std::int64_t limit = 10;
};

constexpr std::string_view kLimits[] = {"compute", "memory", "latency", "resource", "launch"};

// The device's architecture stands for it; a processor is known by its own name and as x86.
Result<knowledge::Route> asked_route(const TipsOptions& o) {
  knowledge::Route route;
  route.op = o.op;
  if (!o.device.empty())
    route.devices = campaign::device_words(data_directory(), o.device, {}, o.device == "cpu" ? "cpu" : "");
  if (!o.language.empty()) route.languages = {o.language};
  route.bottleneck = o.bottleneck;
  const bool known = o.bottleneck.empty() || std::ranges::find(kLimits, o.bottleneck) != std::end(kLimits);
  if (known) return route;
  return with_hint(invalid("--bottleneck {} is not known", o.bottleneck),
                   fmt::format("one of {}", fmt::join(kLimits, ", ")));
}

int search_pages(const TipsOptions& o) {
  const Result<knowledge::Route> route = asked_route(o);
  if (!route) return fail(route.error());
  if (o.limit < 1) return fail(invalid("--limit {}: 1 or more are possible", o.limit));
  const Result<knowledge::Pages> pages = knowledge::read_pages(data_directory() / "knowledge", own_knowledge());
  if (!pages) return fail(pages.error());
  auto hits = knowledge::search(pages->entries, o.experience, o.words, *route);
  if (!hits) return fail(hits.error());
  const std::size_t all = hits->size();
  if (all > static_cast<std::size_t>(o.limit)) hits->resize(static_cast<std::size_t>(o.limit));
  if (globals().json) {
    say("{}\n", record::to_pretty(*hits));
  } else {
    for (const record::KnowledgeHit& hit : *hits) say("{} {}\n{}\n", hit.kind, hit.id, hit.text);
    say("{} of {} found{}\n", hits->size(), all,
        all == 0             ? "; fewer words, or no filter, find more"
        : all > hits->size() ? "; --limit shows more"
                             : "");
  }
  return all == 0 ? kNo : kSuccess;
}

int show_entry(const TipsOptions& o) {
  const Result<knowledge::Pages> pages = knowledge::read_pages(data_directory() / "knowledge", own_knowledge());
  if (!pages) return fail(pages.error());
  const auto found = std::ranges::find(pages->entries, o.id, &record::KnowledgeEntry::id);
  if (found == pages->entries.end()) {
    return fail(
        with_hint(make_error(ErrorCode::kNotFound, "no page has an entry {}", o.id), "ridge tips search lists them"));
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(*found));
  } else {
    say("{}", knowledge::to_text(*found));
  }
  return kSuccess;
}

}  // namespace

void define_tips(Command root) {
  auto o = std::make_shared<TipsOptions>();
  Command tips = root.subcommand("tips", "What is known about making a kernel faster: pages, and tips of campaigns");
  tips.subcommand("search", "Pages and tips in which all of the words stand, best first")
      .positional("words", o->words, "For instance spill, bank conflicts, swizzle", false)
      .option("--op NAME", o->op, "For kernels of this operator, for instance gemm_fp8 or attention")
      .option("--device NAME", o->device, "For this device or architecture: H200, hopper, MI300X, cpu")
      .option("--language NAME", o->language, "For this language or backend: cuda, triton, hip, c++")
      .option("--bottleneck NAME", o->bottleneck, "compute, memory, latency, resource or launch")
      .option("--experience DIR", o->experience,
              "Tips of earlier campaigns: <device>/<operator>/<backend>/tips.md (default: campaigns/experience)")
      .option("--limit N", o->limit, "How many are shown (10)")
      .example("ridge tips search last wave --op gemm --device H200",
               "what idle units at the end are worth, and what helps")
      .example("ridge tips search --op rmsnorm --bottleneck memory --json",
               "everything for such a kernel, for a program")
      .exits({{kNo, "nothing is found"}, kSystem})
      .json("a list of hits: kind (page or tip), id, title, text, score")
      .action([o] { return search_pages(*o); });
  tips.subcommand("show", "One entry of the pages")
      .positional("id", o->id, "As search prints it: ops/gemm#...")
      .example("ridge tips show ops/any-kernel#another-tile-shape", "applies, mechanism, signal and evidence")
      .exits({kSystem})
      .json("the entry")
      .action([o] { return show_entry(*o); });
}

}  // namespace ridge::cli
