#include "campaign/promote.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/signature.h"
#include "base/text.h"
#include "campaign/anchor.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/kernel_export.h"
#include "campaign/naming.h"
#include "campaign/verify.h"
#include "record/backend.h"
#include "record/campaign_block.h"
#include "record/execution.h"
#include "record/json.h"
#include "record/kernel_description.h"
#include "record/kernel_start.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChangelog = "CHANGELOG.md";
constexpr std::string_view kUnreleased = "## Unreleased\n\n";
constexpr std::size_t kShownDigits = 12;

Error not_promoted(const std::string& what, std::string way_out) {
  return with_hint(make_error(ErrorCode::kConflict, "{}", what), std::move(way_out));
}

Status check_signed(const fs::path& directory, const fs::path& key_file) {
  RIDGE_TRY(key, read_public_key(key_file));
  RIDGE_TRY(journal, record::read_journal(directory / kJournalFile));
  RIDGE_TRY(found, check_signatures(directory, journal.events, key));
  if (found.ok()) return ok_status();
  return not_promoted(fmt::format("{}: line {} {}", directory.string(), found.first_bad, found.problem),
                      fmt::format("ridge campaign verify {} --key {}", directory.string(), key_file.string()));
}

// ---- The kernel in the tree

struct TreeKernel {
  std::string path;  // from the top of the tree
  std::string text;
  record::KernelDescription description;
};

// Of a candidate's sources the one that describes itself as a kernel of the library: for a processor the first; for a
// GPU one that the first, a start, includes.
Result<std::size_t> kernel_source_of(const record::Candidate& candidate) {
  for (std::size_t i = 0; i < candidate.sources.size(); ++i) {
    const record::SourceFile& source = candidate.sources[i];
    auto kernel = record::parse_kernel(source.text);
    if (!kernel) return in_context(source.path, kernel.error());
    if (*kernel && std::ranges::find((*kernel)->ops, candidate.op) != (*kernel)->ops.end()) return i;
  }
  return not_promoted(fmt::format("the campaign began from {}, which is no kernel of the library for {}",
                                  candidate.sources.front().path, candidate.op),
                      "only kernels with a ridge-kernel comment are promoted (docs/candidates.md); `ridge campaign "
                      "export-kernel` writes the accepted one");
}

Result<TreeKernel> kernel_in(const fs::path& tree, const std::string& op, const std::string& file_name) {
  const fs::path operators = tree / "src/ops";
  std::error_code ignored;
  if (!fs::is_directory(operators, ignored)) {
    return with_hint(invalid("{} is no source tree of the library: it has no src/ops", tree.string()),
                     "name one with --into; `ridge campaign export-kernel` writes the kernel for other places");
  }
  for (const auto& entry : fs::recursive_directory_iterator(operators, ignored)) {
    if (entry.path().filename() != file_name || !entry.is_regular_file(ignored)) continue;
    RIDGE_TRY(text, read_file(entry.path()));
    auto kernel = record::parse_kernel(text);
    if (!kernel) return in_context(entry.path().string(), kernel.error());
    if (!*kernel || std::ranges::find((*kernel)->ops, op) == (*kernel)->ops.end()) continue;
    return TreeKernel{entry.path().lexically_relative(tree).generic_string(), std::move(text), std::move(**kernel)};
  }
  return not_promoted(fmt::format("the campaign began from {}, and {} has no kernel of {} of that name that describes "
                                  "itself",
                                  file_name, operators.string(), op),
                      "`ridge campaign export-kernel` writes the accepted one");
}

std::string shown_digest(const std::string& text) { return sha256(text).substr(0, kShownDigits); }

// Where a source of the campaign lies in the tree: beside the kernel, or, of a start that includes the kernel, among
// the starts.
std::string place_of(const record::Candidate& baseline, std::size_t index, std::size_t kernel,
                     const std::string& kernel_path) {
  if (index == kernel) return kernel_path;
  const std::string& path = baseline.sources[index].path;
  fs::path folder = kernel == 0 ? fs::path(kernel_path).parent_path() : fs::path("src");
  if (kernel > 0 && index == 0) folder = "data/candidates";
  return (folder / path).lexically_normal().generic_string();
}

// The text that a source of the campaign has now: the tree's, or, of a start that lies nowhere, the one that the kernel
// would get again (record/kernel_start.h).
Result<std::string> text_now(const TreeKernel& kernel, const fs::path& tree, const record::Candidate& baseline,
                             std::size_t index, std::size_t kernel_at) {
  if (index == kernel_at) return kernel.text;
  if (index == 0) {
    RIDGE_TRY(built_for, record::built_for(baseline));
    RIDGE_TRY(block, record::parse_campaign_block(baseline.sources[0].text));
    if (built_for && block) return record::start_text(baseline.sources[kernel_at].path, block->op, block->cases);
  }
  return read_file(tree / place_of(baseline, index, kernel_at, kernel.path));
}

// Every source that the campaign began with is the tree's, but for the kernel's configurations.
Status check_baseline(const TreeKernel& kernel, const fs::path& tree, const record::Candidate& baseline,
                      std::size_t kernel_at) {
  for (std::size_t i = 0; i < baseline.sources.size(); ++i) {
    const std::string path = place_of(baseline, i, kernel_at, kernel.path);
    RIDGE_TRY(text, text_now(kernel, tree, baseline, i, kernel_at));
    std::string now = record::as_candidate_text(std::move(text)), then = baseline.sources[i].text;
    if (i == kernel_at) {
      RIDGE_TRY(bare, record::text_without_configs(now));
      now = std::move(bare);
      if (auto old = record::text_without_configs(then)) then = std::move(*old);
    }
    if (now == then) continue;
    return not_promoted(
        fmt::format("{} is not what the campaign began from: it is {}{}, the campaign's was {}", path,
                    shown_digest(now), i == kernel_at ? " without its configurations" : "", shown_digest(then)),
        fmt::format("check out the commit that the campaign began from and promote there, or measure this source: "
                    "ridge optimize {} --kernel {}",
                    baseline.op, place_of(baseline, 0, kernel_at, kernel.path)));
  }
  return ok_status();
}

// Which of the winner's sources are new to the campaign. Of a campaign that began from a start that includes the
// kernel, only the kernel is the library's: the rest of what was measured would have no place there.
Result<std::vector<record::SourceFile>> changed_sources(const record::Candidate& baseline,
                                                        const record::Candidate& winner, std::size_t kernel_at) {
  std::vector<record::SourceFile> changed;
  for (const record::SourceFile& source : winner.sources) {
    if (std::ranges::find(baseline.sources, source) != baseline.sources.end()) continue;
    if (kernel_at > 0 && source.path != baseline.sources[kernel_at].path) {
      return not_promoted(fmt::format("the campaign changed {}, which is no source of the library: only {} is",
                                      source.path, baseline.sources[kernel_at].path),
                          "make the change in the library's kernel and measure that: ridge optimize " + winner.op +
                              "; `ridge campaign export-kernel` writes the accepted one");
    }
    changed.push_back(source);
  }
  return changed;
}

// ---- Edits

// The lines that differ, with the line before them where nothing would be left to find the place by.
record::TextEdit edit_between(const std::string& path, std::string_view before, std::string_view after) {
  std::size_t same = 0;
  while (same < before.size() && same < after.size() && before[same] == after[same]) ++same;
  while (same > 0 && before[same - 1] != '\n') --same;
  std::size_t tail = 0;
  const std::size_t most = std::min(before.size(), after.size()) - same;
  while (tail < most && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
  while (tail > 0 && before[before.size() - tail - 1] != '\n') --tail;
  if (after.size() - tail == same && same > 0) {
    same = same < 2 ? 0 : before.rfind('\n', same - 2) + 1;  // npos + 1 is the first line
  }
  return {path, std::string(before.substr(same, before.size() - tail - same)),
          std::string(after.substr(same, after.size() - tail - same)), false};
}

Result<std::string> planned_text(const PromotionPlan& plan, const fs::path& tree, const std::string& path) {
  const auto planned = plan.files.find(path);
  return planned == plan.files.end() ? read_file(tree / path) : Result<std::string>(planned->second);
}

void plan_edit(PromotionPlan& plan, record::TextEdit edit, std::string after) {
  plan.files[edit.path] = std::move(after);
  plan.promotion.edits.push_back(std::move(edit));
}

// "block_m256_stages5": without what the names of all tunables begin with.
std::string name_of_values(const std::map<std::string, std::int64_t>& values, const record::TuneSpace& space,
                           const std::string& id) {
  std::string common = space.tunables.empty() ? "" : space.tunables.front().name;
  for (const record::Tunable& tunable : space.tunables) {
    while (!tunable.name.starts_with(common)) common.pop_back();
  }
  common.resize(space.tunables.size() < 2 ? 0 : common.rfind('_') + 1);  // npos + 1 is 0
  std::string name;
  for (const auto& [tunable, value] : values)
    name += fmt::format("{}{}{}", name.empty() ? "" : "_", tunable.substr(common.size()), value);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::size_t kReadable = 40;
  return name.size() <= kReadable ? name : "won_" + id.substr(0, 8);
}

std::string promotion_stem(const record::Promotion& promotion) {
  return (fs::path(promotion.kernel).parent_path() / "promotions" / promotion.campaign).generic_string();
}

// A promotion's file may be anything; it must not reach out of the tree.
Status check_inside(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  if (!path.empty() && normal.is_relative() && *normal.begin() != "..") return ok_status();
  return invalid("a promotion names the file \"{}\", which is not in the tree", path);
}

// ---- Writing

std::string checked_out(execute::Git& repository) {
  const Result<std::string> head = repository.is_repository() ? repository.head() : std::string();
  return head ? *head : std::string();
}

Error killed() { return make_error(ErrorCode::kConflict, "stopped between two edits"); }

Status put_back(const record::PendingEdits& pending, const fs::path& tree) {
  std::error_code ignored;
  for (const record::PendingFile& file : pending.files) {
    if (file.existed) {
      RIDGE_CHECK_OK(write_file_durably(tree / file.path, file.text));
    } else {
      fs::remove(tree / file.path, ignored);
      fs::remove((tree / file.path).parent_path(), ignored);  // only where nothing is left in it
    }
  }
  fs::remove(tree / kPendingFile, ignored);
  return sync_directory(tree);
}

// Replaces files, or removes those without a text. Kept until all are done and `last` holds: what they were.
Status write_all(const fs::path& tree, const std::map<std::string, std::optional<std::string>>& files,
                 const EditStep& step, const std::function<Status()>& last = {}) {
  const auto go_on = [&] { return !step || step(); };
  record::PendingEdits pending;
  pending.head = checked_out(*execute::make_git(tree));
  std::error_code ignored;
  for (const auto& [path, text] : files) {
    RIDGE_CHECK_OK(check_inside(path));
    record::PendingFile file{path, fs::exists(tree / path, ignored), {}};
    if (file.existed) {
      RIDGE_TRY(now, read_file(tree / path));
      file.text = std::move(now);
    }
    pending.files.push_back(std::move(file));
  }
  if (!go_on()) return killed();
  RIDGE_CHECK_OK(write_file_durably(tree / kPendingFile, record::to_line(pending) + "\n"));
  for (const auto& [path, text] : files) {
    if (!go_on()) return killed();
    if (text) {
      RIDGE_CHECK_OK(write_file_durably(tree / path, *text));
      continue;
    }
    fs::remove(tree / path, ignored);
    fs::remove((tree / path).parent_path(), ignored);  // only where nothing is left in it
  }
  if (!go_on()) return killed();
  if (const Status held = last ? last() : ok_status(); !held) {
    RIDGE_CHECK_OK(put_back(pending, tree));
    return held;
  }
  fs::remove(tree / kPendingFile, ignored);
  return sync_directory(tree);
}

bool runs_already(const record::Promotion& promotion, const record::PromotedShape& shape) {
  return shape.over == promotion.implementation + "/" + promotion.configuration;
}

// What dispatch calls the kernel for the campaign's operator.
Result<std::string> implementation_of(const std::string& kernel, const record::Promotion& promotion,
                                      const PromotionNames& names) {
  const auto found = names.implementations.find(fs::path(kernel).lexically_relative("src").generic_string());
  if (found != names.implementations.end()) return found->second;
  if (record::runs_on_host(promotion.backend)) return fs::path(kernel).stem().string();
  return not_promoted(fmt::format("this ridge has no implementation of {} that is made of {}", promotion.op, kernel),
                      "build it with the CUDA backend (-DRIDGE_CUDA_BACKEND=ON)");
}

// The kernel's text with the winner among its configurations: a line more, or, on the line of one that means the same,
// where it is from. Names the configuration.
Result<std::string> with_winner(std::string text, const record::Candidate& winner, const PromotionNames& names,
                                record::Promotion& promotion) {
  record::KernelConfig config{.promoted = fmt::format("{}, {:.2f}x", promotion.campaign, promotion.speedup),
                              .instructions = names.instructions};
  RIDGE_TRY(kernel, record::parse_kernel(text));
  if (const record::KernelConfig* known = kernel->same(winner.defines)) {
    promotion.configuration = known->name;
    return known->promoted.empty() ? record::text_with_promoted(text, known->name, config.promoted) : text;
  }
  for (const auto& [name, value] : winner.defines) {
    const auto tunable = std::ranges::find(kernel->space.tunables, name, &record::Tunable::name);
    if (tunable == kernel->space.tunables.end() || tunable->default_value != value) config.values[name] = value;
  }
  config.name =
      names.configuration.empty() ? name_of_values(config.values, kernel->space, winner.id()) : names.configuration;
  promotion.configuration = config.name;
  promotion.new_configuration = true;
  return record::text_with_config(text, config);
}

}  // namespace

Result<State> promotable(const fs::path& directory, const fs::path& key) {
  const std::string folder = directory.string();
  RIDGE_TRY(verified, verify_campaign(directory));
  if (!verified.ok()) {
    return not_promoted(
        fmt::format("{} does not verify: {}: {}", folder, verified.findings.front().path,
                    verified.findings.front().detail),
        fmt::format("ridge campaign verify {} lists what differs; only an untouched record is promoted", folder));
  }
  if (!key.empty()) RIDGE_CHECK_OK(check_signed(directory, key));
  RIDGE_TRY(state, load_campaign(directory));
  if (!state.final_measurement) {
    return not_promoted(fmt::format("{} has not ended", folder),
                        fmt::format("ridge campaign resume {0} carries on; ridge campaign stop {0} ends it", folder));
  }
  RIDGE_TRY(replayed, replay_campaign(directory));
  if (!replayed.ok()) {
    return not_promoted(fmt::format("{} does not replay: {}", folder, replayed.differences.front()),
                        fmt::format("ridge campaign replay {} lists what differs", folder));
  }
  if (record::is_of_project(state.spec())) {
    return not_promoted(fmt::format("{} is about a project, not about a kernel of the library", folder),
                        fmt::format("ridge campaign hand-back {}", folder));
  }
  if (state.incumbent.round <= 1) {
    return not_promoted(fmt::format("{}: no round was accepted, the baseline stands", folder),
                        "there is nothing to promote; `ridge campaign extend` gives it more time");
  }
  return state;
}

Status check_device(const State& state, std::string_view model) {
  const record::CampaignSpec& spec = state.spec();
  const std::string here = model.empty() ? "" : short_machine_name(model);
  if (here == spec.gpu) return ok_status();
  return not_promoted(
      fmt::format("{} was measured on {}; this {}", spec.id, spec.gpu,
                  here.empty() ? "machine has none" : "is " + here),
      "promote on that machine: what is faster there was not measured here (--dry-run shows what would be edited)");
}

Result<PromotionPlan> plan_promotion(const State& state, const fs::path& tree, const PromotionNames& names) {
  const record::Candidate& baseline = state.created->baseline;
  const record::Candidate& winner = state.incumbent.candidate;
  if (!winner.flags.empty()) {
    return not_promoted(
        fmt::format("{} was built with flags of its own: {}", state.spec().id, fmt::join(winner.flags, " ")),
        "the library builds kernels with its own flags; run the campaign without them");
  }
  RIDGE_TRY(at, kernel_source_of(baseline));
  const std::string& own_path = baseline.sources[at].path;
  RIDGE_TRY(kernel, kernel_in(tree, winner.op, fs::path(own_path).filename().string()));
  RIDGE_CHECK_OK(check_baseline(kernel, tree, baseline, at));
  RIDGE_TRY(changed, changed_sources(baseline, winner, at));
  const auto own = std::ranges::find(winner.sources, own_path, &record::SourceFile::path);
  if (own == winner.sources.end()) return invalid("the accepted candidate has no source {}", own_path);

  PromotionPlan plan;
  plan.kernel_at = static_cast<std::size_t>(own - winner.sources.begin());
  plan.ops = kernel.description.ops;
  plan.max_registers = kernel.description.max_registers;
  record::Promotion& promotion = plan.promotion;
  promotion.campaign = state.spec().id;
  promotion.date = names.date;
  promotion.round = state.incumbent.round;
  promotion.journal_hash = state.last_hash;
  promotion.op = winner.op;
  promotion.backend = state.spec().backend;
  promotion.device = state.spec().gpu;
  promotion.kernel = kernel.path;
  RIDGE_TRY(implementation, implementation_of(kernel.path, promotion, names));
  promotion.implementation = std::move(implementation);
  promotion.values = winner.defines;
  promotion.speedup = promotion.low = promotion.high = speedup_of(state);
  if (!state.final_measurement->effects.empty()) {
    promotion.low = state.final_measurement->effects.front().low;
    promotion.high = state.final_measurement->effects.front().high;
  }
  RIDGE_TRY(before, record::text_without_configs(kernel.text));
  RIDGE_TRY(text, record::text_with_configs_of(record::as_library_text(own->text, own_path), kernel.text));
  RIDGE_TRY(after, record::text_without_configs(text));
  promotion.source_before = sha256(before);
  promotion.source_after = sha256(after);
  promotion.new_source = before != after;
  RIDGE_TRY(with, with_winner(std::move(text), winner, names, promotion));
  text = std::move(with);
  if (text != kernel.text) plan_edit(plan, edit_between(kernel.path, kernel.text, text), text);

  plan.candidate = winner;
  plan.candidate.name = promotion.implementation + "/" + promotion.configuration;
  plan.candidate.sources[plan.kernel_at].text = at == 0 ? text : record::as_candidate_text(text);
  for (const record::SourceFile& source : changed) {
    if (source.path == own_path) continue;
    const std::string path = (fs::path(kernel.path).parent_path() / source.path).lexically_normal().generic_string();
    RIDGE_CHECK_OK(check_inside(path));
    const Result<std::string> old = read_file(tree / path);
    plan_edit(plan, old ? edit_between(path, *old, source.text) : record::TextEdit{path, {}, source.text, true},
              source.text);
    promotion.new_source = true;
  }
  RIDGE_TRY(version, record::kernel_version(text));
  plan.version = promotion.implementation + " " + version;
  return plan;
}

Status add_tuned_lines(PromotionPlan& plan, const fs::path& tree, const std::vector<record::TunedChoice>& choices) {
  for (const record::TunedChoice& choice : choices) {
    const std::string path = "data/tuned/" + record::tuned_file_name(choice.device);
    const std::string line = record::tuned_line(choice);
    std::error_code ignored;
    if (!plan.files.contains(path) && !fs::exists(tree / path, ignored)) {
      plan_edit(plan, {path, {}, line, true}, line);
      continue;
    }
    RIDGE_TRY(text, planned_text(plan, tree, path));
    if (!text.empty() && text.back() != '\n') text += '\n';
    // A file that this promotion creates grows with its edit, which is taken back as a whole.
    const auto created = std::ranges::find_if(
        plan.promotion.edits, [&](const record::TextEdit& edit) { return edit.created && edit.path == path; });
    std::string old;
    for (const std::string& one : split(text, '\n')) {
      if (one.empty()) continue;
      RIDGE_TRY(known, record::parse_tuned(one, path));
      if (known.front().device == choice.device && known.front().bucket == choice.bucket) old = one + "\n";
    }
    if (old.empty()) {
      text += line;
    } else {
      text.replace(text.find(old), old.size(), line);
    }
    if (created != plan.promotion.edits.end()) {
      created->added = text;
      plan.files[path] = std::move(text);
    } else {
      plan_edit(plan, {path, old, line, false}, std::move(text));
    }
  }
  return ok_status();
}

Status add_changelog_line(PromotionPlan& plan, const fs::path& tree) {
  const Result<std::string> text = read_file(tree / kChangelog);
  const std::size_t at = text ? text->find(kUnreleased) : std::string::npos;
  if (at == std::string::npos) return ok_status();
  const record::Promotion& promotion = plan.promotion;
  const auto taken = std::ranges::count_if(
      promotion.shapes, [&](const auto& shape) { return shape.tuned || runs_already(promotion, shape); });
  std::string line = fmt::format(
      "- `{}/{}` of `{}`, promoted by the campaign {}: {:.2f}x the kernel that it began with", promotion.implementation,
      promotion.configuration, promotion.op, promotion.campaign, promotion.speedup);
  line += " on " + promotion.device;
  if (!promotion.shapes.empty())
    line += fmt::format("; dispatch takes it on {} of its {} shapes", taken, promotion.shapes.size());
  line += ".\n";
  std::string after = *text;
  after.insert(at + kUnreleased.size(), line);
  plan_edit(plan, {kChangelog, {}, line, false}, std::move(after));
  return ok_status();
}

std::vector<std::string> touched_files(const record::Promotion& promotion) {
  std::vector<std::string> paths = {promotion_stem(promotion) + ".json", promotion_stem(promotion) + ".md"};
  for (const record::TextEdit& edit : promotion.edits) paths.push_back(edit.path);
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

Status check_clean(const record::Promotion& promotion, execute::Git& repository) {
  if (!repository.is_repository()) return ok_status();
  RIDGE_TRY(changed, repository.changes());
  for (const std::string& path : touched_files(promotion)) {
    if (std::ranges::find(changed, path) == changed.end()) continue;
    return not_promoted(fmt::format("{} has changes that are not committed", path), "commit or stash them first");
  }
  return ok_status();
}

Status apply_promotion(const PromotionPlan& plan, const fs::path& tree, const EditStep& step,
                       const std::function<Status()>& last) {
  std::map<std::string, std::optional<std::string>> files;
  for (const auto& [path, text] : plan.files) files[path] = text;
  const std::string stem = promotion_stem(plan.promotion);
  std::error_code ignored;
  if (fs::exists(tree / (stem + ".json"), ignored)) {
    return not_promoted(fmt::format("{} is promoted already: {}.md", plan.promotion.campaign, stem),
                        fmt::format("ridge promote --revert {} takes it back", plan.promotion.campaign));
  }
  files[stem + ".json"] = record::to_pretty(plan.promotion) + "\n";
  files[stem + ".md"] = promotion_page(plan.promotion);
  return write_all(tree, files, step, last);
}

Result<record::Promotion> find_promotion(const fs::path& tree, const std::string& name) {
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(tree / "src/ops", ignored)) {
    if (entry.path().extension() != ".json" || entry.path().parent_path().filename() != "promotions") continue;
    RIDGE_TRY(text, read_file(entry.path()));
    auto promotion = record::parse_record<record::Promotion>(text, "promotion");
    if (!promotion) return in_context(entry.path().string(), promotion.error());
    const std::string own = entry.path().parent_path().parent_path().lexically_relative(tree).generic_string();
    if (fs::path(promotion->kernel).parent_path().generic_string() != own ||
        promotion->campaign != entry.path().stem()) {
      return invalid("{} is about another kernel or campaign than its place says", entry.path().string());
    }
    if (promotion->campaign == name || promotion->configuration == name) return promotion;
    known.push_back(fmt::format("{} ({})", promotion->campaign, promotion->configuration));
  }
  return with_hint(make_error(ErrorCode::kNotFound, "{} holds no promotion of {}", tree.string(), name),
                   known.empty() ? "it holds none" : fmt::format("it holds {}", fmt::join(known, ", ")));
}

Status revert_promotion(const record::Promotion& promotion, const fs::path& tree, const EditStep& step) {
  std::map<std::string, std::optional<std::string>> files;
  for (auto edit = promotion.edits.rbegin(); edit != promotion.edits.rend(); ++edit) {
    RIDGE_CHECK_OK(check_inside(edit->path));
    const auto changed = [&](const std::string& what) {
      return not_promoted(fmt::format("{} {} since {} was promoted", edit->path, what, promotion.campaign),
                          "take the promotion's edits back by hand, or revert its commit");
    };
    auto [file, fresh] = files.try_emplace(edit->path);
    if (fresh) {
      Result<std::string> text = read_file(tree / edit->path);
      if (!text) return changed("is gone");
      file->second = std::move(*text);
    }
    std::string& text = *file->second;
    if (edit->created) {
      if (text != edit->added) return changed("has changed");
      file->second.reset();
      continue;
    }
    const std::size_t at = text.find(edit->added);
    if (edit->added.empty() || at == std::string::npos || text.find(edit->added, at + 1) != std::string::npos) {
      return changed("has changed");
    }
    text.replace(at, edit->added.size(), edit->removed);
  }
  for (const char* extension : {".json", ".md"}) files[promotion_stem(promotion) + extension] = std::nullopt;
  return write_all(tree, files, step);
}

bool has_unfinished_edits(const fs::path& tree) {
  std::error_code ignored;
  return fs::exists(tree / kPendingFile, ignored);
}

Result<TreeLock> TreeLock::acquire(const fs::path& tree) {
  const int fd = ::open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return make_error(ErrorCode::kIo, "cannot open {}: {}", tree.string(), std::strerror(errno));
  TreeLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK)
    return make_error(ErrorCode::kIo, "cannot lock {}: {}", tree.string(), std::strerror(errno));
  return not_promoted(fmt::format("another ridge promote works on {}", tree.string()), "wait until it has ended");
}

TreeLock::~TreeLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<bool> recover_edits(const fs::path& tree, execute::Git& repository) {
  if (!has_unfinished_edits(tree)) return false;
  RIDGE_TRY(text, read_file(tree / kPendingFile));
  auto pending = record::parse_record<record::PendingEdits>(text, "pending edits");
  if (!pending) return in_context((tree / kPendingFile).string(), pending.error());
  bool committed = checked_out(repository) != pending->head;
  if (committed) {  // unless a commit of something else came between
    RIDGE_TRY(changed, repository.changes());
    for (const record::PendingFile& file : pending->files) {
      committed = committed && std::ranges::find(changed, file.path) == changed.end();
    }
  }
  for (const record::PendingFile& file : pending->files) {
    RIDGE_CHECK_OK(check_inside(file.path));
    RIDGE_CHECK_OK(remove_unfinished_files((tree / file.path).parent_path()));
  }
  if (committed) pending->files.clear();
  RIDGE_CHECK_OK(put_back(*pending, tree));
  return true;
}

std::string tuned_text(const record::Promotion& promotion, const record::PromotedShape& shape) {
  if (shape.tuned) return "yes";
  return runs_already(promotion, shape) ? "no: it runs there already" : "no: not faster";
}

std::string promotion_page(const record::Promotion& promotion) {
  std::string values;
  for (const auto& [name, value] : promotion.values)
    values += fmt::format("{}{}={}", values.empty() ? "" : " ", name, value);
  std::string page = fmt::format(
      "# {}/{}: promoted by {}\n\n"
      "`ridge promote`, {} UTC; `ridge promote --revert {}` takes it back.\n\n"
      "| | |\n|---|---|\n"
      "| operator, device | {} on {} ({}) |\n| from | round {} of {}, last hash of its journal {} |\n"
      "| configuration | {} |\n| source | {} (SHA-256 without its configurations{}) |\n"
      "| against the kernel it began with | {:.3f}x [{:.3f}, {:.3f}] |\n",
      promotion.implementation, promotion.configuration, promotion.campaign, promotion.date, promotion.campaign,
      promotion.op, promotion.backend, promotion.device, promotion.round, promotion.campaign, promotion.journal_hash,
      values.empty() ? "all defaults" : values, promotion.source_after,
      promotion.new_source ? ", before " + promotion.source_before : "", promotion.speedup, promotion.low,
      promotion.high);
  if (promotion.shapes.empty()) return page;
  page +=
      "\nAs the library builds it, against what the library ran before:\n\n| shape | before | speed | tuned table "
      "|\n|---|---|---|---|\n";
  for (const record::PromotedShape& one : promotion.shapes) {
    page += fmt::format("| {} | {} | {:.3f}x [{:.3f}, {:.3f}] over {} sessions | {} |\n", one.shape.label(), one.over,
                        one.ratio, one.low, one.high, one.sessions, tuned_text(promotion, one));
  }
  return page;
}

std::string promotion_diff(const record::Promotion& promotion) {
  std::string diff;
  for (const record::TextEdit& edit : promotion.edits) {
    diff += fmt::format("{}{}\n", edit.path, edit.created ? " (new)" : "");
    for (const auto& [mark, text] : {std::pair("-", &edit.removed), std::pair("+", &edit.added)}) {
      for (const std::string& line : split(*text, '\n')) {
        if (!line.empty()) diff += fmt::format("{} {}\n", mark, line);
      }
    }
  }
  return diff;
}

}  // namespace ridge::campaign
