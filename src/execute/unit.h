// Units of work that run on another machine, and the folder that both sides read and write.
//
//   ROOT/nonce                     random; a node that does not read the same does not share the folder
//   ROOT/batches/<batch>/batch.json   the units that were handed to the scheduler together; logs of their processes
//                        taken/<number>   of a batch that several jobs share: which of them has that unit; link()
//                                         lets one have it. left-<job>: this one takes no more
//   ROOT/units/<key>/unit.json     the order; <key> is the digest of its content, so that one request is one unit
//                    job.json      the attempt under way, written before the scheduler is asked
//                    started-<attempt>.json, progress.json, failed-<attempt>.json
//                    result.json   linked into place: the first one stays, however often the unit runs
//   ROOT/done/<key>                a unit that ended, so that one listing tells of all
//
// Every file appears whole, by rename or link. Nothing is decided by a time stamp: clocks of nodes may differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "execute/executor.h"
#include "record/unit.h"
#include "ridge/result.h"

namespace ridge::execute {

// The digest of what is asked, and of `scope`, which tells two askings of the same from each other. The time that is
// left and the folder of the cache are no content.
std::string unit_key(const record::WorkerRequest& request, std::string_view scope);

class UnitFolder {
 public:
  explicit UnitFolder(std::filesystem::path root) : root_(std::move(root)) {}
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] std::filesystem::path nonce() const { return root_ / "nonce"; }
  [[nodiscard]] std::filesystem::path done() const { return root_ / "done"; }
  [[nodiscard]] std::filesystem::path batch(const std::string& name) const { return root_ / "batches" / name; }
  [[nodiscard]] std::filesystem::path taken(const std::string& name) const { return batch(name) / "taken"; }
  [[nodiscard]] std::filesystem::path order(const std::string& key) const { return unit(key) / "unit.json"; }
  [[nodiscard]] std::filesystem::path job(const std::string& key) const { return unit(key) / "job.json"; }
  [[nodiscard]] std::filesystem::path progress(const std::string& key) const { return unit(key) / "progress.json"; }
  [[nodiscard]] std::filesystem::path result(const std::string& key) const { return unit(key) / "result.json"; }
  [[nodiscard]] std::filesystem::path started(const std::string& key, std::int64_t attempt) const;
  [[nodiscard]] std::filesystem::path failed(const std::string& key, std::int64_t attempt) const;
  [[nodiscard]] std::filesystem::path unit(const std::string& key) const { return root_ / "units" / key; }

  // Makes the folders and the nonce where they are missing, and gives the nonce.
  [[nodiscard]] Result<std::string> open() const;
  // Seconds that the clock of the folder's file system is ahead of `clock`: both sides compare with the same third one.
  [[nodiscard]] Result<double> clock_offset(Clock& clock) const;

 private:
  std::filesystem::path root_;
};

// Writes a file that stays as the first writer made it; true when this one was the first.
Result<bool> write_once(const std::filesystem::path& path, std::string_view content);
// Writes a file that appears whole. It is not waited for the disk: what a power loss may take, as it ends whom it is
// of.
Status write_note(const std::filesystem::path& path, std::string_view content);

// Gives a unit of a shared batch to a job; false: it has been taken before. Of all who try, one is told true, and what
// one has is never another's.
Result<bool> take_unit(const UnitFolder& folder, const std::string& batch, std::size_t number, std::int64_t job);
// Which job has it; none: that cannot be read.
std::optional<std::int64_t> taker_of(const UnitFolder& folder, const std::string& batch, std::size_t number);
// Units of a shared batch that are taken, and jobs that take no more, by one listing.
struct BatchNotes {
  std::set<std::size_t> taken, left;
};
Result<BatchNotes> notes_of(const UnitFolder& folder, const std::string& batch);
// What was handed over under that name; none: it cannot be read, or nothing of this program wrote it.
std::optional<record::UnitBatch> batch_of(const UnitFolder& folder, const std::string& name);

// A name as it is made here: of letters, digits and dashes. What another machine says is part of a path only if it is.
bool is_unit_name(std::string_view name);

// Why a record that can be read is none that this program wrote; empty: it may be. Its numbers go into sums and its
// names into paths.
std::string objection_to(const record::UnitResult& result);
std::string objection_to(const record::UnitSubmission& job);
std::string objection_to(const record::UnitTurn& turn);
std::string objection_to(const record::UnitBatch& batch);

// The error that a node recorded, with the node in its words.
Error error_of(const record::UnitFailure& failure);

// This machine: its name, its processor, the driver of its GPUs. `node`: what its scheduler calls it; empty: its name.
record::UnitPlace this_place(const std::string& node = {});
// Whether two places are one device; empty: yes, else what differs with both values.
std::string difference_of(const record::UnitPlace& a, const record::UnitPlace& b);

// The other side: what a node needs to run a unit.
struct UnitHost {
  std::string version;  // of this program
  std::filesystem::path cache_directory;
  record::UnitPlace place;
  Clock& clock;
  // What answers the request of an order; takes the device for it where it measures.
  std::function<std::unique_ptr<Executor>(const record::UnitOrder&)> make_executor;
  ShouldStop should_stop = {};
};

// A job on a node, from its units to their results. One of a batch that jobs share takes a unit when it is done with
// the one before; what has been taken is not begun again, however often the job is started.
class UnitJob {
 public:
  // An Error is a folder that is not shared, or one that is damaged. `host` outlives the job.
  static Result<UnitJob> open(const std::filesystem::path& root, const std::string& batch, std::size_t number,
                              const UnitHost& host);
  // The key of the next unit, to be followed by work(); none: nothing is left for this job.
  Result<std::optional<std::string>> take();
  // Leaves the result or the failure of that unit in its folder. A unit that has a result is done. A process that is
  // told to stop leaves neither. An Error is what could not be written.
  Status work();

 private:
  UnitJob(UnitFolder folder, std::string batch, std::size_t number, record::UnitBatch units, const UnitHost& host);
  [[nodiscard]] bool shared() const { return units_.jobs > 0; }
  [[nodiscard]] bool takes_more() const;
  Result<std::optional<std::size_t>> next_of_all();
  Status give_back_unfinished();
  Status note_that_it_leaves();

  UnitFolder folder_;
  std::string batch_;
  std::size_t number_;
  record::UnitBatch units_;
  const UnitHost* host_;
  double begun_;
  std::size_t at_ = 0;       // the unit that was taken
  std::int64_t taken_ = 0;   // how many
  bool in_trouble_ = false;  // the last one failed in a way that may be this machine's
};

// Runs job number `number` of a batch, all of its units. A process that is told to stop leaves neither a result nor a
// failure: who stopped it starts it again, or does not want it any more. An Error is what could not be written there:
// the folder is not shared, or it is full.
Status run_job(const std::filesystem::path& root, const std::string& batch, std::size_t number, const UnitHost& host);

}  // namespace ridge::execute
