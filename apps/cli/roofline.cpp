// ridge roofline: what bounds a problem on a machine, where it stands, and when it is done.
#include "roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "campaign_run.h"
#include "hardware/spec.h"
#include "record/backend.h"
#include "record/hardware.h"
#include "record/json.h"
#include "roofline/analyse.h"
#include "roofline/machine.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct RooflineOptions {
  std::string op, on, latency, measured, bandwidth, l2_bandwidth, shared_bandwidth, launch, dtype = "bf16", plot, write;
  std::vector<std::string> words, phases;
  double flop = 0, bytes = 0, profiler_bytes = 0, l2_bytes = 0, shared_bytes = 0, target = 0.9;
  std::int64_t threads = 1;
};

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

Result<roofline::Override> overrides_of(const RooflineOptions& o) {
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
Result<std::vector<Work>> work_of(const RooflineOptions& o) {
  if (o.op.empty()) {
    if (!(o.flop > 0) && !(o.bytes > 0)) {
      return with_hint(invalid("nothing to place"), "name an operator and a case, or give --flop and --bytes");
    }
    return std::vector<Work>{{"given work", o.dtype, o.flop, o.bytes}};
  }
  RIDGE_TRY(cases, cases_of(o.op, o.words));
  record::WorkerRequest request;
  request.task = record::WorkerTask::kExplain;
  request.cases = std::move(cases);
  RIDGE_TRY(response, ask_worker(request));
  std::vector<Work> work;
  for (std::size_t i = 0; i < response.explanations.size(); ++i) {
    const record::Explanation& e = response.explanations[i];
    const std::size_t at = (" " + e.label).find(" dtype=");
    const std::string rest = at == std::string::npos ? "f32" : e.label.substr(at + 6);
    work.push_back({o.op + " " + e.label, rest.substr(0, rest.find(' ')), e.cost.flop, e.cost.bytes});
  }
  return work;
}

// The limits come from a product of the database, or from this machine's ceilings.
class Limits {
 public:
  static Result<Limits> find(const RooflineOptions& o) {
    Limits limits;
    RIDGE_TRY(given, overrides_of(o));
    limits.given_ = given;
    const record::BackendInfo& info = record::backend_of_name(o.on);
    limits.threads_ = info.host ? o.threads : 1;
    if (o.on.empty() || o.on == "this" || (!info.host && info.measured)) {
      RIDGE_TRY(ceilings, known_ceilings({std::string(info.name), o.threads}));
      limits.ceilings_ = std::move(ceilings);
      if (!info.host) RIDGE_CHECK_OK(limits.find_documents());
      return limits;
    }
    RIDGE_TRY(database, hardware::Database::open(data_directory()));
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
  Status find_documents() {
    if (ceilings_.empty()) return ok_status();
    const std::string name = ceilings_.front().device.substr(0, ceilings_.front().device.find(','));
    RIDGE_TRY(database, hardware::Database::open(data_directory()));
    if (const auto found = database.find(name)) documents_ = **found;
    return ok_status();
  }

  std::optional<hardware::Spec> spec_, documents_;
  std::vector<record::Ceiling> ceilings_;
  roofline::Override given_;
  std::int64_t threads_ = 1;
};

// "f32=2.5e9" adds a phase of another element type.
Status add_phases(const RooflineOptions& o, const Limits& limits, roofline::Problem& problem) {
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

Result<std::vector<record::RooflineReport>> reports_of(const RooflineOptions& o) {
  RIDGE_TRY(work, work_of(o));
  RIDGE_TRY(limits, Limits::find(o));
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

Status write_files(const RooflineOptions& o, const record::RooflineReport& report) {
  if (!o.plot.empty() && !report.unknown.empty())
    return with_hint(make_error(ErrorCode::kUnsupported, "no drawing without every roof: {}", report.unknown.front()),
                     "give what you know: --measured RATE, --bandwidth RATE");
  if (!o.plot.empty()) RIDGE_CHECK_OK(write_file_durably(o.plot, roofline::to_svg(report)));
  if (!o.write.empty()) {
    std::error_code missing;
    const Result<std::string> old =
        std::filesystem::exists(o.write, missing) ? read_file(o.write) : Result<std::string>(std::string());
    if (!old) return old.error();
    RIDGE_CHECK_OK(write_file_durably(o.write, roofline::with_sections(*old, report)));
  }
  return ok_status();
}

int run_roofline(const RooflineOptions& o) {
  const Result<std::vector<record::RooflineReport>> reports = reports_of(o);
  if (!reports) return fail(reports.error());
  if ((!o.plot.empty() || !o.write.empty()) && reports->size() != 1) {
    return fail(invalid("--plot and --write take one case, not {}", reports->size()));
  }
  if (!reports->empty()) {
    if (const Status written = write_files(o, reports->front()); !written) return fail(written.error());
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(*reports));
    return kSuccess;
  }
  for (const record::RooflineReport& report : *reports) say("{}", roofline::to_text(report));
  return kSuccess;
}

}  // namespace

Result<std::vector<record::RooflineReport>> rooflines(const std::string& op, const std::vector<std::string>& words,
                                                      const std::string& on, std::int64_t threads,
                                                      const GivenRates& given) {
  RooflineOptions options;
  options.measured = given.arithmetic;
  options.bandwidth = given.bandwidth;
  options.op = op;
  options.words = words;
  options.on = on;
  options.threads = threads;
  return reports_of(options);
}

Result<double> bandwidth_of(const std::string& text) { return parse_rate(text, hardware::Dimension::kBandwidth); }

Result<record::RooflineReport> roofline_of_work(const std::string& label, const std::string& on, double flop,
                                                double bytes, const std::string& dtype, const GivenRates& given) {
  RooflineOptions options;
  options.on = on;
  options.flop = flop;
  options.bytes = bytes;
  options.dtype = dtype;
  options.measured = given.arithmetic;
  options.bandwidth = given.bandwidth;
  RIDGE_TRY(reports, reports_of(options));
  reports.front().label = label;
  return reports.front();
}

void define_roofline(Command root) {
  auto o = std::make_shared<RooflineOptions>();
  root.subcommand("roofline", "What bounds a problem on a machine, where it stands, and when it is done")
      .positional("operator", o->op, "Operator; without one, --flop and --bytes", false)
      .positional("case", o->words, "Parameters, for instance m=4096 n=4096 k=4096 dtype=bf16", false)
      .option("--on PRODUCT", o->on,
              "A product of ridge spec list; this (default) or cuda: this processor or GPU, by its measured ceilings")
      .option("--latency TIME", o->latency, "Measured time of one call, for instance 0.25ms")
      .option("--measured RATE", o->measured, "Measured arithmetic ceiling, instead of the cited peak: 760TFLOPS")
      .option("--bandwidth RATE", o->bandwidth, "Measured bandwidth of the memory: 4.2TB/s")
      .option("--l2-bandwidth RATE", o->l2_bandwidth, "Measured bandwidth of the L2")
      .option("--shared-bandwidth RATE", o->shared_bandwidth, "Measured bandwidth of all shared memories together")
      .option("--launch TIME", o->launch, "Measured time of an empty launch, to tell launch-bound calls")
      .option("--flop", o->flop, "Work, without an operator")
      .option("--bytes", o->bytes, "Compulsory traffic, without an operator")
      .option("--dtype TYPE", o->dtype, "Element type of --flop")
      .option("--phase TYPE=FLOP", o->phases, "TYPE=FLOP: work of another element type in the same call (repeatable)")
      .option("--profiler-bytes", o->profiler_bytes, "Bytes of the memory as a profiler counted them")
      .option("--l2-bytes", o->l2_bytes, "Bytes through the L2 as a profiler counted them")
      .option("--shared-bytes", o->shared_bytes, "Bytes through shared memory as a profiler counted them")
      .option("--target FRACTION", o->target, "Fraction of the bound that counts as done")
      .option("--threads", o->threads, "CPU threads, for this processor")
      .option("--plot FILE", o->plot, "Draw it into this SVG file")
      .option("--write FILE", o->write, "Write Hardware Spec, Roofline and Stop Conditions into this Markdown file")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on H200 --latency 0.25ms",
               "55.6 % of 989.4 TFLOP/s")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on MI300X --plot roofline.svg",
               "the same code for AMD")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on cuda",
               "the GPU here, as ridge ceilings found it")
      .example("ridge roofline gemm m=4096 n=4096 k=4096 dtype=bf16 --on H20 --measured 148TFLOPS",
               "no source states that peak; without the flag it is UNKNOWN, and the memory alone gives a bound")
      .example("ridge roofline --flop 1e9 --bytes 4e9 --dtype f32 --on L40S", "any work, without an operator")
      .exits({{kUnavailable, "the device is not here, or no source states any of its limits"}, kSystem, kInterrupted})
      .json("a list with each case's axes, bound, attained fraction and stop conditions")
      .action([o] { return run_roofline(*o); });
}

}  // namespace ridge::cli
