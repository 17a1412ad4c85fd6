// Puts what a campaign won into a tree of the library, and takes it back.
//
// A promotion is a list of edits: the configuration's line in the kernel's source (or the changed source), its lines in
// the device's tuned table, a line of CHANGELOG.md, and two files beside the kernel, promotions/<campaign>.md and
// .json, of which the second holds every edit. Nothing of the tree changes before all of them are known; then the files
// as they were are kept in kPendingFile until the last is written. A process that is killed between leaves that file,
// and recover_edits() puts the tree back.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "campaign/state.h"
#include "execute/git.h"
#include "record/promotion.h"
#include "record/tuned.h"

namespace ridge::campaign {

inline constexpr const char* kPendingFile = ".ridge-promotion.json";

// The campaign, if it may be promoted: its record verifies and replays, every line is signed by `key` (a file with a
// public key) where one is given, it has ended, and a round was accepted. A refusal names the way out.
Result<State> promotable(const std::filesystem::path& directory, const std::filesystem::path& key = {});

// kConflict when the campaign was measured on another processor or GPU than one of this model; empty: there is none.
Status check_device(const State& state, std::string_view model);

struct PromotionPlan {
  record::Promotion promotion;
  std::map<std::string, std::string> files;  // what the edited ones become, by path from the top of the tree
  record::Candidate candidate;               // the winner over the sources as the tree will have them
  std::size_t kernel_at = 0;                 // which of its sources is the library's kernel
  std::vector<std::string> ops;              // that are made of the kernel
  std::int64_t max_registers = 255;          // of a GPU's: what its description allows
  std::string version;                       // of the implementation, as a tuned table names it
};

struct PromotionNames {
  std::string configuration;  // empty: made of the values, "vector16_mr6_nv4"
  std::string instructions;   // of a CPU: what its build may use (record/kernel_description.h)
  std::string date;
  // What dispatch calls kernels, by their source below src/; one of a processor that is not here is called like its
  // file.
  std::map<std::string, std::string> implementations;
};

// The edits of the kernel. Refused: a kernel that the tree does not have, a baseline whose sources are not the tree's
// (but for the lines of the kernel's configurations), a winner with compiler flags of its own, and one that changed a
// start of data/candidates, of which the library has no copy to change.
Result<PromotionPlan> plan_promotion(const State& state, const std::filesystem::path& tree,
                                     const PromotionNames& names);
// The configuration's lines in data/tuned, in place of those for the same buckets.
Status add_tuned_lines(PromotionPlan& plan, const std::filesystem::path& tree,
                       const std::vector<record::TunedChoice>& choices);
// A line under Unreleased; nothing where the tree has no such heading.
Status add_changelog_line(PromotionPlan& plan, const std::filesystem::path& tree);

// Every path that a promotion touches, from the top of the tree.
std::vector<std::string> touched_files(const record::Promotion& promotion);
// kConflict when one of them has changes that are not committed. A folder that is no repository is clean.
Status check_clean(const record::Promotion& promotion, execute::Git& repository);

// Called before every effect on the disk; false: stops there, as if the process were killed.
using EditStep = std::function<bool()>;
// `last` sees the tree as it became; where it fails everything is put back, and its error is returned.
Status apply_promotion(const PromotionPlan& plan, const std::filesystem::path& tree, const EditStep& step = {},
                       const std::function<Status()>& last = {});
// By the campaign's id or by the configuration's name. The error lists what there is.
Result<record::Promotion> find_promotion(const std::filesystem::path& tree, const std::string& name);
// Refused when what was written has changed since.
Status revert_promotion(const record::Promotion& promotion, const std::filesystem::path& tree,
                        const EditStep& step = {});
// Puts back what a killed promotion left, unless it was committed; whether there was anything.
Result<bool> recover_edits(const std::filesystem::path& tree, execute::Git& repository);
// Whether edits of a promotion that was killed wait for recover_edits().
bool has_unfinished_edits(const std::filesystem::path& tree);

// One promotion at a time in a tree, from recover_edits() to the last check. Ends with its process.
class TreeLock {
 public:
  // kConflict where another process promotes.
  static Result<TreeLock> acquire(const std::filesystem::path& tree);
  TreeLock(TreeLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TreeLock& operator=(TreeLock&&) = delete;
  ~TreeLock();

 private:
  explicit TreeLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// "yes", or why a measured shape has no line in the tuned table.
std::string tuned_text(const record::Promotion& promotion, const record::PromotedShape& shape);
// The page beside the kernel, and the edits as a person reads them.
std::string promotion_page(const record::Promotion& promotion);
std::string promotion_diff(const record::Promotion& promotion);

}  // namespace ridge::campaign
