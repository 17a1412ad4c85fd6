#include "service/roofline.h"

#include <cstdlib>

#include "base/error.h"
#include "hardware/spec.h"
#include "record/backend.h"
#include "roofline/analyse.h"
#include "roofline/machine.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

// "0.25ms", "138us" in seconds; empty is 0.
Result<double> parse_time(const std::string& text) {
  if (text.empty()) return 0.0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  for (const auto& [name, scale] : {std::pair<const char*, double>{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}) {
    if (unit == name && value > 0) return value * scale;
  }
  return with_hint(invalid("\"{}\" is not a time", text), "write for instance 0.25ms or 138us");
}

// "760TFLOPS", "760 TFLOPS" of one dimension; empty is 0.
Result<double> parse_rate(const std::string& text, hardware::Dimension dimension) {
  if (text.empty()) return 0.0;
  std::string spaced = text;
  if (const std::size_t unit = spaced.find_first_not_of("0123456789.");
      unit != std::string::npos && spaced[unit] != ' ') {
    spaced.insert(unit, " ");
  }
  RIDGE_TRY(value, hardware::parse_quantity(spaced));
  const bool rate = dimension == hardware::Dimension::kFlops && value.dimension == hardware::Dimension::kOps;
  if (value.dimension != dimension && !rate)
    return invalid("{} is {}, wanted {}", text, to_string(value.dimension), to_string(dimension));
  return value.value;
}

Result<roofline::Override> overrides_of(const RooflineRequest& o) {
  roofline::Override given;
  RIDGE_TRY(flops, parse_rate(o.measured, hardware::Dimension::kFlops));
  RIDGE_TRY(bandwidth, parse_rate(o.bandwidth, hardware::Dimension::kBandwidth));
  RIDGE_TRY(l2, parse_rate(o.l2_bandwidth, hardware::Dimension::kBandwidth));
  RIDGE_TRY(shared, parse_rate(o.shared_bandwidth, hardware::Dimension::kBandwidth));
  given.flops = flops;
  given.bandwidth = bandwidth;
  given.l2_bandwidth = l2;
  given.shared_bandwidth = shared;
  return given;
}

struct Work {
  std::string label, dtype;
  double flop = 0, bytes = 0;
};

// From the operator's contract, or from --flop and --bytes.
Result<std::vector<Work>> work_of(const Context& context, const RooflineRequest& o) {
  if (o.op.empty()) {
    if (!(o.flop > 0) && !(o.bytes > 0)) {
      return with_hint(invalid("nothing to place"), "name an operator and a case, or give --flop and --bytes");
    }
    return std::vector<Work>{{"given work", o.dtype, o.flop, o.bytes}};
  }
  RIDGE_TRY(cases, cases_of(context, o.op, o.words));
  RIDGE_TRY(explanations, explanations_of(context, std::move(cases)));
  std::vector<Work> work;
  for (const record::Explanation& e : explanations) {
    const std::size_t at = (" " + e.label).find(" dtype=");
    const std::string rest = at == std::string::npos ? "f32" : e.label.substr(at + 6);
    work.push_back({o.op + " " + e.label, rest.substr(0, rest.find(' ')), e.cost.flop, e.cost.bytes});
  }
  return work;
}

// The limits come from a product of the database, or from this machine's ceilings.
class Limits {
 public:
  static Result<Limits> find(const Context& context, const RooflineRequest& o) {
    Limits limits;
    RIDGE_TRY(given, overrides_of(o));
    limits.given_ = given;
    const record::BackendInfo& info = record::backend_of_name(o.on);
    limits.threads_ = info.host ? o.threads : 1;
    if (o.on.empty() || o.on == "this" || (!info.host && info.measured)) {
      RIDGE_TRY(ceilings, known_ceilings(context, {std::string(info.name), o.threads}));
      limits.ceilings_ = std::move(ceilings);
      if (!info.host) RIDGE_CHECK_OK(limits.find_documents(context));
      return limits;
    }
    RIDGE_TRY(database, hardware::Database::open(context.data_directory));
    RIDGE_TRY(spec, database.find(o.on));
    limits.spec_ = *spec;
    return limits;
  }
  [[nodiscard]] Result<roofline::Limit> arithmetic(const std::string& dtype) const {
    if (spec_) {
      Result<roofline::Limit> limit = roofline::arithmetic_limit(*spec_, dtype, given_);
      if (limit || limit.error().code != ErrorCode::kUnsupported) return limit;
      return roofline::unknown_limit(dtype, limit.error());
    }
    RIDGE_TRY(limit, roofline::arithmetic_limit(ceilings_, threads_, dtype, given_));
    if (documents_) roofline::cite(*documents_, dtype, limit);
    return limit;
  }
  [[nodiscard]] Result<roofline::Machine> machine() const {
    if (spec_) return roofline::machine_of(*spec_, given_);
    RIDGE_TRY(machine, roofline::machine_of(ceilings_, threads_, given_));
    if (documents_) roofline::cite(*documents_, machine);
    return machine;
  }

 private:
  // The product that the measured GPU names itself as; a GPU that the database lacks has no citations.
  Status find_documents(const Context& context) {
    if (ceilings_.empty()) return ok_status();
    const std::string name = ceilings_.front().device.substr(0, ceilings_.front().device.find(','));
    RIDGE_TRY(database, hardware::Database::open(context.data_directory));
    if (const auto found = database.find(name)) documents_ = **found;
    return ok_status();
  }

  std::optional<hardware::Spec> spec_, documents_;
  std::vector<record::Ceiling> ceilings_;
  roofline::Override given_;
  std::int64_t threads_ = 1;
};

// "f32=2.5e9" adds a phase of another element type.
Status add_phases(const RooflineRequest& o, const Limits& limits, roofline::Problem& problem) {
  for (const std::string& text : o.phases) {
    const std::size_t equals = text.find('=');
    char* end = nullptr;
    const double flop = equals == std::string::npos ? 0 : std::strtod(text.c_str() + equals + 1, &end);
    if (!(flop > 0) || *end != '\0')
      return with_hint(invalid("--phase {} is not TYPE=FLOP", text), "write for instance f32=2.5e9");
    RIDGE_TRY(limit, limits.arithmetic(text.substr(0, equals)));
    problem.phases.push_back({std::move(limit), flop});
  }
  return ok_status();
}

}  // namespace

Result<std::vector<record::RooflineReport>> rooflines(const Context& context, const RooflineRequest& o) {
  RIDGE_TRY(work, work_of(context, o));
  RIDGE_TRY(limits, Limits::find(context, o));
  RIDGE_TRY(machine, limits.machine());
  RIDGE_TRY(latency, parse_time(o.latency));
  RIDGE_TRY(launch, parse_time(o.launch));
  if (launch > 0) machine.launch_latency = launch;
  if (latency > 0 && work.size() != 1) return invalid("one latency, but {} cases", work.size());
  std::vector<record::RooflineReport> reports;
  for (const Work& w : work) {
    RIDGE_TRY(limit, limits.arithmetic(w.dtype));
    roofline::Problem problem{w.label,    {{limit, w.flop}}, w.bytes, o.profiler_bytes,
                              o.l2_bytes, o.shared_bytes,    latency, o.target};
    RIDGE_CHECK_OK(add_phases(o, limits, problem));
    RIDGE_TRY(report, roofline::analyse(problem, machine));
    reports.push_back(std::move(report));
  }
  return reports;
}

Result<std::vector<record::RooflineReport>> rooflines(const Context& context, const std::string& op,
                                                      const std::vector<std::string>& words, const std::string& on,
                                                      std::int64_t threads, const GivenRates& given) {
  RooflineRequest options;
  options.measured = given.arithmetic;
  options.bandwidth = given.bandwidth;
  options.op = op;
  options.words = words;
  options.on = on;
  options.threads = threads;
  return rooflines(context, options);
}

Result<double> bandwidth_of(const std::string& text) { return parse_rate(text, hardware::Dimension::kBandwidth); }

Result<record::RooflineReport> roofline_of_work(const Context& context, const std::string& label, const std::string& on,
                                                double flop, double bytes, const std::string& dtype,
                                                const GivenRates& given) {
  RooflineRequest options;
  options.on = on;
  options.flop = flop;
  options.bytes = bytes;
  options.dtype = dtype;
  options.measured = given.arithmetic;
  options.bandwidth = given.bandwidth;
  RIDGE_TRY(reports, rooflines(context, options));
  reports.front().label = label;
  return reports.front();
}

}  // namespace ridge::service
