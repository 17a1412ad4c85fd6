// ridge tips: what is known about making such a kernel faster: the knowledge pages, and tips of earlier campaigns.
#include "service/tips.h"
#include "knowledge/pages.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct TipsOptions {
  service::TipsRequest request;
  std::string id;
};

int search_pages(const Context& context, const service::TipsRequest& request) {
  const Result<service::TipsFound> found = service::search_tips(context, request);
  if (!found) return fail(found.error());
  const int code = found->all == 0 ? kNo : kSuccess;
  if (globals().json) return print_json(found->hits, code);
  for (const record::KnowledgeHit& hit : found->hits) say("{} {}\n{}\n", hit.kind, hit.id, hit.text);
  say("{} of {} found{}\n", found->hits.size(), found->all,
      found->all == 0                   ? "; fewer words, or no filter, find more"
      : found->all > found->hits.size() ? "; --limit shows more"
                                        : "");
  return code;
}

int show_entry(const Context& context, const std::string& id) {
  const Result<record::KnowledgeEntry> found = service::find_page(context, id);
  if (!found) return fail(found.error());
  if (globals().json) return print_json(*found);
  say("{}", knowledge::to_text(*found));
  return kSuccess;
}

}  // namespace

void define_tips(Command root) {
  auto o = std::make_shared<TipsOptions>();
  Command tips = root.subcommand("tips", "What is known about making a kernel faster: pages, and tips of campaigns");
  tips.subcommand("search", "Pages and tips in which all of the words stand, best first")
      .positional("words", o->request.words, "For instance spill, bank conflicts, swizzle", false)
      .option("--op NAME", o->request.op, "For kernels of this operator, for instance gemm_fp8 or attention")
      .option("--device NAME", o->request.device, "For this device or architecture: H200, hopper, MI300X, cpu")
      .option("--language NAME", o->request.language, "For this language or backend: cuda, triton, hip, c++")
      .option("--bottleneck NAME", o->request.bottleneck, "compute, memory, latency, resource or launch")
      .option("--experience DIR", o->request.experience,
              "Tips of earlier campaigns: <device>/<operator>/<backend>/tips.md (default: campaigns/experience)")
      .option("--limit N", o->request.limit, "How many are shown (10)")
      .example("ridge tips search last wave --op gemm --device H200",
               "what idle units at the end are worth, and what helps")
      .example("ridge tips search --op rmsnorm --bottleneck memory --json",
               "everything for such a kernel, for a program")
      .exits({{kNo, "nothing is found"}, kSystem})
      .json("a list of hits: kind (page or tip), id, title, text, score")
      .action([o](const Context& context) { return search_pages(context, o->request); });
  tips.subcommand("show", "One entry of the pages")
      .positional("id", o->id, "As search prints it: ops/gemm#...")
      .example("ridge tips show ops/any-kernel#another-tile-shape", "applies, mechanism, signal and evidence")
      .exits({kSystem})
      .json("the entry")
      .action([o](const Context& context) { return show_entry(context, o->id); });
}

}  // namespace ridge::cli
