// The spec database: one file per exact product below data/hardware, every fact with the source it comes from.
//
//   memory_bandwidth = { is = "4.8 TB/s", from = "nvidia/h200-datasheet.md:H200 SXM" }
//   matrix_int8 = { is = "1979 TOPS", from = "derived/h200.md:H200", evidence = "derived", formula =
//   "matrix_int8_sparse / 2" } memory_data_rate = { unknown = "the datasheet states none" } matrix_fp4 = { none =
//   "Hopper has no 4-bit floating-point instruction" } memory_capacity = { is = "180 GB", from = "...", also = [{ is =
//   "192 GB", from = "..." }], conflict = "why 180" }
//
// A value is never inferred from a similar product: what no source states is UNKNOWN.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/metrics.h"
#include "hardware/quantity.h"
#include "hardware/wiki.h"

namespace ridge::hardware {

enum class State { kKnown, kUnknown, kNone };
enum class Evidence { kVendor, kDerived, kMeasured, kThirdParty };
std::string_view to_string(Evidence evidence);  // "vendor", "derived", "measured", "third-party"

struct OtherSource {
  Quantity value;
  std::string from;
};

struct Fact {
  const Metric* metric = nullptr;
  State state = State::kUnknown;
  Quantity value;    // when known
  std::string from;  // "<page>:<section>"
  Evidence evidence = Evidence::kVendor;
  std::string formula;  // when derived: names of other metrics and numbers joined by * and /
  std::string reason;   // why unknown, why there is none; a note otherwise
  std::vector<OtherSource> also;
  std::string conflict;  // why `value` and not the others
  int line = 0;

  // "single source", "agreed" or "resolved"; "open" when the sources differ and nothing says why one was taken.
  [[nodiscard]] std::string_view conflict_status() const;
  // "memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM"
  [[nodiscard]] std::string citation() const;
};

struct Spec {
  std::string name;     // "H200"
  std::string product;  // "NVIDIA H200 SXM 141GB"
  std::string vendor, kind, architecture, target, capability;
  std::vector<std::string> aliases;
  std::string file;  // as given to load_spec, for messages
  std::vector<Fact> facts;

  [[nodiscard]] bool is_gpu() const { return kind == "gpu"; }
  [[nodiscard]] const Fact* find(std::string_view metric) const;
  // The value in base units. The error of an unknown value is kUnsupported and reads
  // "<metric>: UNKNOWN (<why>)"; of a name that is no metric, kNotFound.
  [[nodiscard]] Result<double> value(std::string_view metric) const;
  // Same, `otherwise` when the fact is absent, unknown or there is none.
  [[nodiscard]] double value_or(std::string_view metric, double otherwise) const;
};

Result<Spec> parse_spec(std::string file, std::string_view text);

class Database {
 public:
  // `data` holds hardware/ and wiki/.
  static Result<Database> open(const std::filesystem::path& data);

  [[nodiscard]] const std::vector<Spec>& specs() const { return specs_; }
  [[nodiscard]] const Wiki& wiki() const { return wiki_; }
  // By name or alias, ignoring case, spaces, dashes and the vendor's name. A name that fits several products ("H100")
  // is an error that lists them; no product ever stands in for another.
  [[nodiscard]] Result<const Spec*> find(std::string_view name) const;

 private:
  std::vector<Spec> specs_;
  Wiki wiki_;
};

// Value of a formula in base units from the facts of `spec`. `half_ulp` receives the rounding that its inputs carry, as
// a fraction.
Result<double> evaluate(const Spec& spec, std::string_view formula, double* rounding = nullptr);

}  // namespace ridge::hardware
