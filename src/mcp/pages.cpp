#include "mcp/pages.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/inside.h"
#include "mcp/call.h"

namespace ridge::mcp {
namespace {

namespace fs = std::filesystem;
using record::McpPrompt;
using record::McpResource;

constexpr const char *kCampaign = "ridge://campaign/", *kKnowledge = "ridge://knowledge/";
constexpr std::uintmax_t kMostBytes = 1u << 20;
constexpr int kDepth = 3;  // of campaigns below the root

const char* kind_of(const fs::path& file) {
  const std::string end = file.extension().string();
  if (end == ".md") return "text/markdown";
  if (end == ".html") return "text/html";
  if (end == ".json" || end == ".jsonl") return "application/json";
  if (end == ".csv") return "text/csv";
  return "text/plain";
}

Error not_there(const std::string& uri) {
  return with_hint(make_error(ErrorCode::kNotFound, "there is no {}", uri),
                   "resources/list and resources/templates/list name what there is");
}

}  // namespace

std::vector<fs::path> Pages::campaigns() const {
  std::vector<fs::path> found;
  std::error_code failure;
  for (fs::recursive_directory_iterator at(root_, fs::directory_options::skip_permission_denied, failure), end;
       at != end; at.increment(failure)) {
    if (failure) break;
    if (at.depth() >= kDepth || at->path().filename().string().starts_with(".")) at.disable_recursion_pending();
    if (!at->is_directory(failure) || !fs::exists(at->path() / kJournal, failure)) continue;
    found.push_back(fs::relative(at->path(), root_, failure));
    at.disable_recursion_pending();
  }
  std::ranges::sort(found);
  return found;
}

std::vector<McpResource> Pages::list() const {
  std::vector<McpResource> all;
  std::error_code failure;
  for (const fs::path& campaign : campaigns()) {
    const std::string name = campaign.string();
    if (fs::exists(root_ / campaign / "report/REPORT.md", failure))
      all.push_back({fmt::format("{}{}/file/report/REPORT.md", kCampaign, name), name + ": report",
                     "The report of " + name, "text/markdown"});
    all.push_back({fmt::format("{}{}/journal/1", kCampaign, name), name + ": journal", "The first events of " + name,
                   "application/json"});
  }
  std::set<std::string> pages;
  for (const fs::path& folder : knowledge_) {
    for (fs::recursive_directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
      if (at->path().extension() == ".md")
        pages.insert(fs::relative(at->path(), folder, failure).replace_extension().string());
    }
  }
  for (const std::string& name : pages)
    all.push_back({kKnowledge + name, name, "What is known: " + name, "text/markdown"});
  std::ranges::sort(all, {}, &McpResource::uri);
  return all;
}

std::vector<McpResource> Pages::templates() {
  return {{std::string(kCampaign) + "{folder}/journal/{page}", "journal",
           fmt::format("The journal of a campaign, {} events a page, from 1 on", kLinesOfAPage), "application/json"},
          {std::string(kCampaign) + "{folder}/file/{path}", "file",
           "A file of a campaign: its report, a log, the source of a round", "text/plain"},
          {std::string(kKnowledge) + "{page}", "knowledge", "A page of what is known about making kernels faster",
           "text/markdown"}};
}

Result<Pages::Page> Pages::file(const std::string& uri, const fs::path& folder, const std::string& rest) const {
  std::error_code failure;
  const fs::path path = fs::weakly_canonical(folder / rest, failure);
  if (failure || !lies_in(path, folder) || !fs::is_regular_file(path, failure)) return not_there(uri);
  if (const std::uintmax_t bytes = fs::file_size(path, failure); failure || bytes > kMostBytes)
    return invalid("{} has {} bytes, more than the {} of a resource", uri, bytes, kMostBytes);
  RIDGE_TRY(text, read_file(path));
  return Page{{uri, rest, rest, kind_of(path)}, std::move(text)};
}

Result<Pages::Page> Pages::journal(const std::string& uri, const std::string& rest) const {
  const std::size_t slash = rest.rfind("/journal/");
  const std::string folder = rest.substr(0, slash), number = rest.substr(slash + 9);
  std::size_t page = 0;
  const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), page);
  if (wrong != std::errc() || end != number.data() + number.size() || page == 0)
    return with_hint(invalid("\"{}\" is no page of a journal", number), "pages are counted from 1");
  RIDGE_TRY(whole, file(uri, root_ / folder, kJournal));
  std::string text;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < whole.text.size(); ++line) {
    std::size_t stop = whole.text.find('\n', begin);
    stop = stop == std::string::npos ? whole.text.size() : stop + 1;
    if (line / kLinesOfAPage == page - 1) text += whole.text.substr(begin, stop - begin);
    begin = stop;
  }
  if (text.empty()) return not_there(uri);
  return Page{{uri, "journal", "Events of " + folder, "application/json"}, std::move(text)};
}

Result<Pages::Page> Pages::read(const std::string& uri) const {
  if (uri.starts_with(kKnowledge)) {
    const std::string name = uri.substr(std::string_view(kKnowledge).size()) + ".md";
    for (std::size_t i = knowledge_.size(); i > 0; --i) {
      Result<Page> page = file(uri, knowledge_[i - 1], name);
      if (page || i == 1 || page.error().code != ErrorCode::kNotFound) return page;
    }
  }
  if (!uri.starts_with(kCampaign)) return not_there(uri);
  const std::string rest = uri.substr(std::string_view(kCampaign).size());
  const std::vector<fs::path> known = campaigns();
  for (const fs::path& campaign : known) {
    if (rest.starts_with(campaign.string() + "/journal/")) return journal(uri, rest);
    const std::string files = campaign.string() + "/file/";
    if (rest.starts_with(files)) return file(uri, root_ / campaign, rest.substr(files.size()));
  }
  return not_there(uri);
}

const std::vector<McpPrompt>& prompts() {
  static const std::vector<McpPrompt> all = {
      {"optimise_kernel", "A whole campaign on an operator, from its confirmation to the report", "operator",
       "For instance gemm"},
      {"round", "One round of a campaign", "directory", "Folder of the campaign"},
      {"handoff_project", "Prepare a project of its own for campaigns", "project", "Folder of the project"}};
  return all;
}

std::string prompt_text(const McpPrompt& prompt, const std::string& argument) {
  if (prompt.name == "optimise_kernel")
    return fmt::format(
        "Make the kernel of {0} faster, by a campaign whose every decision is measured.\n\n"
        "1. `doctor`: what can this machine measure? `roofline` with operator {0}: what bounds it?\n"
        "2. `optimize` with operator {0}, a budget and proposer manual drafts a campaign. Read what it will do; "
        "`campaign_confirm` accepts it, and "
        "`campaign_resume` measures the baseline and pauses.\n"
        "3. Rounds, one after the other, in the order of the prompt `round`. Stop when the target is reached or three "
        "rounds in a row gained nothing.\n"
        "4. `campaign_stop`, `campaign_verify`, `campaign_replay`; then say what was gained, by which round, and the "
        "interval that the report gives.\n\n"
        "Only the engine decides. A number that it did not measure is a guess and is called one.",
        argument);
  if (prompt.name == "round")
    return fmt::format(
        "One round of the campaign in {0}.\n\n"
        "1. `campaign_context`: the incumbent's source and tunables, what limits it, what was tried and how it ended, "
        "and what is known of such kernels. Do not repeat what was rolled back for the same reason.\n"
        "2. `roofline`, `tips_search` and `inspect`: what limits the incumbent? Name one mechanism.\n"
        "3. One change that acts on it. State title, reason, the gain you expect and what would show that you are "
        "wrong.\n"
        "4. `check` the source, then `campaign_propose` in {0}. A kernel that does not build or is wrong may be "
        "repaired in the same round.\n"
        "5. Read the verdict and its evidence. Compare the gain with what you expected, and write down what that says "
        "about the mechanism.",
        argument);
  return fmt::format(
      "Prepare the project in {0} for campaigns.\n\n"
      "1. Find the kernel, how it is built, its tests, its shapes and its dtype.\n"
      "2. `handoff_init` with project {0} and dry_run writes nothing and shows the harness; without it, it is written "
      "and checked.\n"
      "3. `handoff` with project {0} says what is missing. Mend it in the project, and never by weakening the check.\n"
      "4. Say what a campaign would make better, on which shapes, and how a result is called wrong.",
      argument);
}

}  // namespace ridge::mcp
