// Tuned tables: which implementation was measured to be fastest for a bucket of cases on a device.
//
// Lines of JSON (record/tuned.h): those that ship with the library (data/tuned), then every *.jsonl of the folders of
// RIDGE_TUNED_DIR (separated by ':'), then of `tuned` in the cache folder; later lines win. A line counts only on the
// device it was measured on and with the version of the implementation that it names. Dispatch prefers its
// implementation, after one probe in this process has shown that its results keep to the error model; one whose results
// do not is refused, and said so by explain() and on_fallback().
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/embedded.h"
#include "dispatch/choose.h"
#include "ops/op.h"
#include "record/tuned.h"

namespace ridge::dispatch {

// The case with every size rounded to the nearest of 1, 1.5, 2, 3, 4, 6, 8, 12, ...; what is not a size stays. Cases of
// a bucket differ by less than a fifth in each size, so one measurement speaks for all of them.
record::Case bucket_of(const ops::Operator& op, const ops::Problem& problem);

// The versions of every implementation of the operator on that backend, "name version; ...", without the paths where
// they were found.
std::string library_versions(const ops::Operator& op, Backend backend);

// data/tuned as it was built in: *.jsonl, and a page about them.
std::span<const EmbeddedFile> shipped_tables();

class TunedTable {
 public:
  void add(record::TunedChoice choice);
  // Every *.jsonl among the files.
  Status add_files(std::span<const EmbeddedFile> files);
  // Every *.jsonl of a folder, in the order of their names; a folder that is not there has none.
  Status add_folder(const std::filesystem::path& folder);
  [[nodiscard]] const record::TunedChoice* find(const ops::Operator& op, const ops::Problem& problem,
                                                const ops::DeviceInfo& device) const;
  [[nodiscard]] std::size_t size() const { return choices_.size(); }
  [[nodiscard]] const std::map<std::string, record::TunedChoice>& choices() const { return choices_; }

 private:
  std::map<std::string, record::TunedChoice> choices_;  // by device and bucket
};

// Those that ship, read once; one that cannot be read has no lines here, and is reported by installed_preference().
const TunedTable& shipped_table();

// What dispatch prefers by this table.
Preference preference_of(std::shared_ptr<const TunedTable> table);
// That of the tables on this machine, read once; a table that cannot be read is reported through on_fallback() and left
// out.
Preference installed_preference();
// At its next call, since they may have changed.
void read_installed_again();

// Whether what it was measured with is what there is now: all libraries, the driver, and the limits of the device
// (record/device_limits.h). Dispatch asks for less.
bool is_fresh(const record::TunedChoice& choice, const ops::Operator& op, const ops::DeviceInfo& device,
              std::string_view limits);

}  // namespace ridge::dispatch
