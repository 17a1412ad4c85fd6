// Everything a measurement leaves behind: raw samples first, summaries second.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/names.h"
#include "record/training.h"

namespace ridge::record {

// What became of a candidate. HARNESS_FAULT is never charged to the candidate and never a pass.
// NOT_CLAIMED and DECLINED are cases that a kernel does not compute: outside the scope it declares, or by what it
// returned.
enum class Outcome {
  kPass,
  kSlower,
  kAmbiguous,
  kWrong,
  kCheat,
  kCompile,
  kCrash,
  kHang,
  kOom,
  kHarnessFault,
  kNotClaimed,
  kDeclined
};
template <>
struct EnumNames<Outcome> {
  static constexpr std::pair<Outcome, std::string_view> kNames[] = {{Outcome::kPass, "PASS"},
                                                                    {Outcome::kSlower, "SLOWER"},
                                                                    {Outcome::kAmbiguous, "AMBIGUOUS"},
                                                                    {Outcome::kWrong, "WRONG"},
                                                                    {Outcome::kCheat, "CHEAT"},
                                                                    {Outcome::kCompile, "COMPILE"},
                                                                    {Outcome::kCrash, "CRASH"},
                                                                    {Outcome::kHang, "HANG"},
                                                                    {Outcome::kOom, "OOM"},
                                                                    {Outcome::kHarnessFault, "HARNESS_FAULT"},
                                                                    {Outcome::kNotClaimed, "NOT_CLAIMED"},
                                                                    {Outcome::kDeclined, "DECLINED"}};
};

// Whether it says something about the candidate. A fault of the harness (a worker that died, a budget that ran out) and
// sessions that could not tell say nothing: the candidate is neither better nor refuted.
inline bool settles(Outcome outcome) { return outcome != Outcome::kHarnessFault && outcome != Outcome::kAmbiguous; }

// What a round came to. Only kAccepted and kRolledBack say something about the candidate: kNotSettled was measured and
// could not be told, of kNotMeasured no session counted (void, out of budget, a fault of the harness).
enum class RoundState { kUnfinished, kAccepted, kRolledBack, kNotSettled, kNotMeasured };
template <>
struct EnumNames<RoundState> {
  static constexpr std::pair<RoundState, std::string_view> kNames[] = {{RoundState::kUnfinished, "unfinished"},
                                                                       {RoundState::kAccepted, "accepted"},
                                                                       {RoundState::kRolledBack, "rolled back"},
                                                                       {RoundState::kNotSettled, "not settled"},
                                                                       {RoundState::kNotMeasured, "not measured"}};
};

// The defence that stopped a candidate, or kNone. Each can be switched off by a test (never by a request), and for each
// tests/cheats holds a candidate that then slips through.
enum class Defence {
  kNone,
  // what the outputs show
  kElementBound,  // an element is further from the fp64 reference than the error model allows
  kNonfinite,     // NaN or Inf by kind and sign
  kRms,           // twice the error of the ideal kernel of the declared accumulation type
  kBias,          // errors that lean to one side
  kProjection,    // a secret projection of the output of a timed call
  kPoison,        // elements that were never written
  kFreshInputs,   // the results of an earlier call
  kPromptCopy,    // written after the call had returned
  kRedZone,       // memory before or behind an operand
  kRowPadding,    // memory between the rows of an output
  kInputIntact,   // a changed input
  kEveryCall,     // wrong in a later call of the same process
  kFullDraw,      // wrong in a call drawn afterwards for the full comparison
  kNewAddress,    // wrong when the same content lies elsewhere
  kPaddedRows,    // wrong when rows are further apart than their length
  kFamilies,      // wrong on another family of inputs
  kHeldOut,       // wrong on a shape drawn in secret
  kInformative,   // a case that zeros, constants or a copy would pass
  kRerun,         // other bits for the same call, though declared deterministic
  kSanitizer,     // AddressSanitizer or UBSan
  // what the clocks show
  kClock,
  kUnpaidWork,
  // what the process did, or was refused
  kBuild,
  kStatus,
  kCrash,
  kHang,
  kMemory,
  kSystemCalls,
  kFiles,
  kEnvironment,
  kDescriptors,
  kPrivileges,
  kOtherUser,
  kUserNamespace,
  kMountNamespace,
  kPidNamespace,
  kNetNamespace,
  kIpcNamespace,
  // on a device
  kGuardPage,    // memory outside an operand, also when it is only read
  kDeviceCalls,  // printing, allocating or launching from the device
  kCold,         // inputs that were in the cache
  kFloor         // faster than the device can be
};
template <>
struct EnumNames<Defence> {
  static constexpr std::pair<Defence, std::string_view> kNames[] = {{Defence::kNone, "none"},
                                                                    {Defence::kElementBound, "element_bound"},
                                                                    {Defence::kNonfinite, "nonfinite"},
                                                                    {Defence::kRms, "rms"},
                                                                    {Defence::kBias, "bias"},
                                                                    {Defence::kProjection, "projection"},
                                                                    {Defence::kPoison, "poison"},
                                                                    {Defence::kFreshInputs, "fresh_inputs"},
                                                                    {Defence::kPromptCopy, "prompt_copy"},
                                                                    {Defence::kRedZone, "red_zone"},
                                                                    {Defence::kRowPadding, "row_padding"},
                                                                    {Defence::kInputIntact, "input_intact"},
                                                                    {Defence::kEveryCall, "every_call"},
                                                                    {Defence::kFullDraw, "full_draw"},
                                                                    {Defence::kNewAddress, "new_address"},
                                                                    {Defence::kPaddedRows, "padded_rows"},
                                                                    {Defence::kFamilies, "families"},
                                                                    {Defence::kHeldOut, "held_out"},
                                                                    {Defence::kInformative, "informative"},
                                                                    {Defence::kRerun, "rerun"},
                                                                    {Defence::kSanitizer, "sanitizer"},
                                                                    {Defence::kClock, "clock"},
                                                                    {Defence::kUnpaidWork, "unpaid_work"},
                                                                    {Defence::kBuild, "build"},
                                                                    {Defence::kStatus, "status"},
                                                                    {Defence::kCrash, "crash"},
                                                                    {Defence::kHang, "hang"},
                                                                    {Defence::kMemory, "memory"},
                                                                    {Defence::kSystemCalls, "system_calls"},
                                                                    {Defence::kFiles, "files"},
                                                                    {Defence::kEnvironment, "environment"},
                                                                    {Defence::kDescriptors, "descriptors"},
                                                                    {Defence::kPrivileges, "privileges"},
                                                                    {Defence::kOtherUser, "other_user"},
                                                                    {Defence::kUserNamespace, "user_namespace"},
                                                                    {Defence::kMountNamespace, "mount_namespace"},
                                                                    {Defence::kPidNamespace, "pid_namespace"},
                                                                    {Defence::kNetNamespace, "net_namespace"},
                                                                    {Defence::kIpcNamespace, "ipc_namespace"},
                                                                    {Defence::kGuardPage, "guard_page"},
                                                                    {Defence::kDeviceCalls, "device_calls"},
                                                                    {Defence::kCold, "cold"},
                                                                    {Defence::kFloor, "floor"}};
};

// The machine and the software, as name/value facts in a fixed order ("cpu.model", "compiler", "kernel", ...).
struct Environment {
  std::map<std::string, std::string> facts;
  // Its value; `otherwise` where it is not there.
  [[nodiscard]] std::string fact(std::string_view name, std::string_view otherwise = {}) const {
    const auto found = facts.find(std::string(name));
    return found == facts.end() ? std::string(otherwise) : found->second;
  }
  static void fields(auto& v, auto& self) { v("facts", self.facts); }
};

// How timing is done and how a decision is reached; frozen before the first decision.
struct Protocol {
  std::string mode = "cold";         // cold: rotating buffers past the last-level cache; warm: reused
  std::int64_t threads = 1;          // CPU threads one call may use
  double min_effect = 0.01;          // d: the gain that must be exceeded, as a fraction
  double alpha = 0.05;               // chance of any false accept in the whole campaign
  std::int64_t max_decisions = 120;  // K: alpha is shared among this many
  std::int64_t max_sessions = 32;    // per decision
  std::int64_t max_quads = 8;        // Q: quads per session for small effects
  std::int64_t max_launches = 5;     // m: launches per block for small effects
  double max_void_fraction = 0.2;
  double noninferiority = 0.05;  // a shape may not be slower by more than this
  double call_timeout = 30.0;    // seconds for one call of a candidate
  double build_timeout = 120.0;
  std::int64_t memory_limit_mib = 4096;
  // What a session on an undisturbed machine shows at most. What becomes of one beyond is the decision rule's.
  double max_clock_gap = 0.005;           // between the median clocks of the two arms, as a fraction
  double max_steal = 0.05;                // processor time taken by the hypervisor
  double max_foreign_load = 0.10;         // processor or device time used by others
  std::int64_t calibrate_every = 20;      // decisions after which the machine is calibrated again
  std::string decision_rule = kCharging;  // names every constant that is not a field: docs/measurement.md
  static constexpr const char* kVoiding = "sign-betting-1";   // disturbed sessions are void
  static constexpr const char* kCharging = "sign-betting-2";  // a session must win by what its disturbance can add
  static void fields(auto& v, auto& self) {
    v("mode", self.mode);
    v("threads", self.threads);
    v("min_effect", self.min_effect);
    v("alpha", self.alpha);
    v("max_decisions", self.max_decisions);
    v("max_sessions", self.max_sessions);
    v("max_quads", self.max_quads);
    v("max_launches", self.max_launches);
    v("max_void_fraction", self.max_void_fraction);
    v("noninferiority", self.noninferiority);
    v("call_timeout", self.call_timeout);
    v("build_timeout", self.build_timeout);
    v("memory_limit_mib", self.memory_limit_mib);
    v.optional("max_clock_gap", self.max_clock_gap);
    v.optional("max_steal", self.max_steal);
    v.optional("max_foreign_load", self.max_foreign_load);
    v.optional("calibrate_every", self.calibrate_every);
    v.optional("decision_rule", self.decision_rule);
  }
};

// One quad of launches: blocks in the order ABBA or BAAB, each block's launches in seconds.
// A is the incumbent, B the candidate.
struct Quad {
  std::string order;                        // "ABBA" or "BAAB"
  std::vector<std::vector<double>> blocks;  // four blocks, in the order they ran
  static void fields(auto& v, auto& self) {
    v("order", self.order);
    v("blocks", self.blocks);
  }
};

struct ShapeSamples {
  std::string label;  // Case::label()
  std::vector<Quad> quads;
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("quads", self.quads);
  }
};

// One column of a project's table, of the same processes as the times of the session.
struct ColumnSamples {
  enum class Holds { kSeconds, kDecibel, kHigher, kLower };
  std::string name;               // "forward", "backward"; "out_snr", "da_snr", "db_snr"; or as the project calls it
  Holds holds = Holds::kSeconds;  // kHigher, kLower: the primary metric itself, and which of two values is better
  std::vector<ShapeSamples> shapes;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("holds", self.holds);
    v("shapes", self.shapes);
  }
};
template <>
struct EnumNames<ColumnSamples::Holds> {
  using Holds = ColumnSamples::Holds;
  static constexpr std::pair<Holds, std::string_view> kNames[] = {{Holds::kSeconds, "seconds"},
                                                                  {Holds::kDecibel, "dB"},
                                                                  {Holds::kHigher, "higher is better"},
                                                                  {Holds::kLower, "lower is better"}};
};

// A session: fresh process, fresh buffers, fresh secret inputs. The unit of the sequential test.
struct Session {
  std::int64_t index = 0;
  std::string role = "confirm";  // calibrate | screen | confirm | final
  bool voided = false;           // decided by arm-symmetric facts before the sign was looked at
  std::string void_reason;
  std::vector<ShapeSamples> shapes;    // of a project: the time that its primary metric counts
  std::vector<ColumnSamples> columns;  // of a project: what its table says beside that time
  std::map<std::string, double>
      guards;  // "clock_gap", "steal_fraction", "foreign_load", "witness_gap_max", "wall", ...
  static void fields(auto& v, auto& self) {
    v("index", self.index);
    v("role", self.role);
    v("voided", self.voided);
    v("void_reason", self.void_reason);
    v("shapes", self.shapes);
    v.optional("columns", self.columns);
    v("guards", self.guards);
  }
};

// What A/A sessions (a kernel against itself) said about a machine. It plans how large later sessions are and may stop
// a campaign; it never accepts anything.
struct Calibration {
  std::int64_t sessions = 0;             // valid ones
  std::int64_t quads = 0, launches = 0;  // of each: the noise is that of sessions of this size
  double noise = 0;                      // robust standard deviation of a session's log ratio
  double detectable = 0;                 // smallest gain that is decided in about 15 sessions, as a fraction
  double bias = 0;                       // median log ratio; should be zero
  double sign_p_value = 1;               // of the balance of signs
  std::vector<double> noise_by_shape;
  double clock_gap = 0;  // that the clocks of two equal arms usually stay below
  bool healthy = false;  // a campaign may rest on this machine
  std::string reason;    // one sentence with the values
  static void fields(auto& v, auto& self) {
    v("sessions", self.sessions);
    v("quads", self.quads);
    v("launches", self.launches);
    v("noise", self.noise);
    v("detectable", self.detectable);
    v("bias", self.bias);
    v("sign_p_value", self.sign_p_value);
    v("noise_by_shape", self.noise_by_shape);
    v.optional("clock_gap", self.clock_gap);
    v("healthy", self.healthy);
    v("reason", self.reason);
  }
};

// Result of checking one implementation or candidate on one case.
struct CheckRow {
  std::string label;
  Outcome outcome = Outcome::kPass;
  std::string detail;          // what was wrong, with index and values; empty on a pass
  double max_error_ratio = 0;  // largest |error| / allowed; above 1 is a failure
  double rms_error_ratio = 0;  // RMS error over that of the ideal kernel; above 2 is a failure
  double snr_db = 0;
  std::int64_t verified_calls = 0;  // calls whose output was verified, each on its own fresh input
  std::int64_t elements = 0;
  Defence gate = Defence::kNone;             // what stopped it
  bool informative = true;                   // false: zeros, a constant, or a copy of an input would pass as well
  std::map<std::string, std::string> lanes;  // what else was looked at and what came out: "held-out", "sanitizer", ...
  std::int64_t families = 0;                 // of inputs
  std::int64_t compared =
      0;                  // outputs compared element by element; each may be called wrong by chance (docs/checking.md)
  std::int64_t seed = 0;  // everything secret about the check follows from it: `ridge check ... --seed`
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("outcome", self.outcome);
    v("detail", self.detail);
    v("max_error_ratio", self.max_error_ratio);
    v("rms_error_ratio", self.rms_error_ratio);
    v("snr_db", self.snr_db);
    v("verified_calls", self.verified_calls);
    v("elements", self.elements);
    v.optional("gate", self.gate);
    v.optional("informative", self.informative);
    v.optional("lanes", self.lanes);
    v.optional("families", self.families);
    v.optional("compared", self.compared);
    v.optional("seed", self.seed);
  }
};

// What the compiler did, read from its own outputs; evidence for the next hypothesis.
struct BuildEvidence {
  std::string candidate;  // Candidate::id()
  std::string artifact;   // SHA-256 of the built object
  std::string command, compiler;
  bool cached = false;
  double wall = 0;                       // seconds spent building
  std::string log;                       // warnings and errors, shortened
  std::map<std::string, double> counts;  // "fma_vector", "fma_scalar", "gather", "stack_spill", "vector_bits", ...
  std::vector<Constraint> needs;         // of its launch plan, on the shapes that it was built for: over its tunables
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("artifact", self.artifact);
    v("command", self.command);
    v("compiler", self.compiler);
    v("cached", self.cached);
    v("wall", self.wall);
    v("log", self.log);
    v("counts", self.counts);
    v.optional("needs", self.needs);
  }
};

// Both arms of an evaluation, built again from their sources after they were measured: in a private folder, past the
// cache. What was measured must be what the sources make.
struct Rebuild {
  std::string candidate, incumbent;  // SHA-256 of the built objects; empty: not built
  std::string error;                 // why one of them was not built
  double wall = 0;                   // seconds
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("incumbent", self.incumbent);
    v("error", self.error);
    v("wall", self.wall);
  }
};

// Work and compulsory traffic of one case, from the operator's contract.
struct Cost {
  double flop = 0, bytes = 0;
  static void fields(auto& v, auto& self) {
    v("flop", self.flop);
    v("bytes", self.bytes);
  }
};

// A measured ceiling of this machine: "fma_f32" in FLOP/s, "read_bandwidth" in B/s, ...
struct Ceiling {
  std::string name, unit;
  std::int64_t threads = 1;
  double value = 0;  // the robust maximum: what a kernel may hope for
  std::vector<double> samples;
  std::string method;
  std::string device;     // of a GPU: name, UUID and driver; empty: this machine's processor
  std::string disturbed;  // what others used while it was measured, in words; empty: no more than a quiet machine shows
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("unit", self.unit);
    v("threads", self.threads);
    v("value", self.value);
    v("samples", self.samples);
    v("method", self.method);
    v.optional("device", self.device);
    v.optional("disturbed", self.disturbed);
  }
};

// One direction of a project's case: forward or backward.
struct DirectionPoint {
  std::string name;
  Cost cost;
  double bound_time = 0, latency = 0;  // seconds
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("cost", self.cost);
    v("bound_time", self.bound_time);
    v("latency", self.latency);
  }
};

// Where one case stands against the ceilings.
struct RooflinePoint {
  std::string label;
  Cost cost;
  double intensity = 0;                    // FLOP per byte
  double bound_time = 0;                   // seconds: no kernel on this machine is faster
  std::string bound;                       // compute | memory
  double latency = 0;                      // seconds, median
  double fraction = 0;                     // bound_time / latency
  std::vector<DirectionPoint> directions;  // of a project
  std::optional<double> value;             // of a project whose primary metric is a column of its table: the median
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("cost", self.cost);
    v("intensity", self.intensity);
    v("bound_time", self.bound_time);
    v("bound", self.bound);
    v("latency", self.latency);
    v("fraction", self.fraction);
    v.optional("directions", self.directions);
    v.optional("value", self.value);
  }
};

// One row of a benchmark.
struct BenchRow {
  std::string subject;  // implementation or candidate name
  std::string label;
  Outcome outcome = Outcome::kPass;
  std::string detail;
  std::vector<double> samples;  // seconds, in the order they ran
  std::int64_t sessions = 0;    // fresh processes that they come from
  double noise = 0;             // standard deviation between sessions: of the log of their medians, or of their ratios
  double median = 0, p10 = 0, p90 = 0, min = 0;
  double flops = 0, bandwidth = 0;  // FLOP/s, B/s of compulsory bytes, at the median
  double roofline_fraction = 0;
  std::optional<double> ratio;  // against --vs: Hodges-Lehmann of the sessions' paired ratios, > 1 is faster
  std::optional<double> ratio_low, ratio_high;
  std::map<std::string, double> guards;  // the worst of the sessions: "steal_fraction", "foreign_load", ...
  static void fields(auto& v, auto& self) {
    v("subject", self.subject);
    v("label", self.label);
    v("outcome", self.outcome);
    v("detail", self.detail);
    v("samples", self.samples);
    v("sessions", self.sessions);
    v("noise", self.noise);
    v("median", self.median);
    v("p10", self.p10);
    v("p90", self.p90);
    v("min", self.min);
    v("flops", self.flops);
    v("bandwidth", self.bandwidth);
    v("roofline_fraction", self.roofline_fraction);
    v.optional("ratio", self.ratio);
    v.optional("ratio_low", self.ratio_low);
    v.optional("ratio_high", self.ratio_high);
    v.optional("guards", self.guards);
  }
};

// One paired look at a candidate outside of any campaign (`ridge try`). No decision: it controls no errors.
struct Look {
  std::int64_t version = 1;
  bool decision = false;           // never one
  std::string candidate, against;  // names; `against`: another candidate, or the implementation that dispatch chooses
  std::optional<double> ratio, ratio_low, ratio_high;  // over the cases, geometric mean; above 1: faster
  std::int64_t sessions = 0;                           // of the case with the fewest
  double seconds = 0;                                  // that the look took
  std::vector<BenchRow> rows;                          // of the candidate, one per case
  Environment environment;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("decision", self.decision);
    v("candidate", self.candidate);
    v("against", self.against);
    v.optional("ratio", self.ratio);
    v.optional("ratio_low", self.ratio_low);
    v.optional("ratio_high", self.ratio_high);
    v("sessions", self.sessions);
    v("seconds", self.seconds);
    v("rows", self.rows);
    v("environment", self.environment);
  }
};

// A benchmark as it is kept: what ran, where, how, and every sample.
struct BenchReport {
  std::int64_t version = 1;
  std::string ridge;    // version of the program
  std::string created;  // "2026-11-21T07:30:12Z"
  Environment environment;
  Protocol protocol;
  std::vector<Ceiling> ceilings;
  std::string versus;  // what ratios are against; empty: none
  std::vector<BenchRow> bench;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("ridge", self.ridge);
    v("created", self.created);
    v("environment", self.environment);
    v("protocol", self.protocol);
    v("ceilings", self.ceilings);
    v.optional("versus", self.versus);
    v("bench", self.bench);
  }
};

// Everything the worker found out about one candidate against the incumbent. No verdict: the campaign decides.
struct Evaluation {
  std::string candidate, incumbent;  // ids
  Outcome outcome = Outcome::kPass;  // how far it got; kPass = measured to a stop of the sequential test
  std::string detail;
  BuildEvidence build;
  std::vector<CheckRow> checks;
  std::vector<Session> sessions;                    // screening first, then confirmation, voided ones included
  std::vector<RooflinePoint> roofline;              // of the candidate
  std::map<std::string, double> seconds;            // where the time went: "build", "check", "measure"
  Defence gate = Defence::kNone;                    // what stopped it
  std::string timing = "ridge-worker";              // the timing engine; numbers of two are never compared
  std::optional<std::string> table;                 // of the candidate: the last one of a project, byte for byte
  std::optional<TrainingTrace> training;            // of the candidate, where a project has a training command
  std::optional<TrainingTrace> incumbent_training;  // what a step costs without the change
  std::optional<std::int64_t>
      acceptance_exit_code;                       // of the project's acceptance command on the best; -1: it was killed
  std::optional<std::string> incumbent_artifact;  // SHA-256 of the incumbent's built object, as it was measured
  std::optional<Rebuild> rebuild;                 // of a candidate that would be accepted
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("incumbent", self.incumbent);
    v("outcome", self.outcome);
    v("detail", self.detail);
    v("build", self.build);
    v("checks", self.checks);
    v("sessions", self.sessions);
    v("roofline", self.roofline);
    v("seconds", self.seconds);
    v.optional("gate", self.gate);
    v.optional("timing", self.timing);
    v.optional("table", self.table);
    v.optional("training", self.training);
    v.optional("incumbent_training", self.incumbent_training);
    v.optional("acceptance_exit_code", self.acceptance_exit_code);
    v.optional("incumbent_artifact", self.incumbent_artifact);
    v.optional("rebuild", self.rebuild);
  }
};

// One configuration of a sweep, ranked by a quick look; never a reason to accept.
struct ScreenRow {
  std::string candidate;  // id
  std::map<std::string, std::int64_t> defines;
  Outcome outcome = Outcome::kPass;
  std::string detail;
  double score = 0;               // geomean over shapes of bound_time / median latency
  std::vector<double> latencies;  // median per shape, seconds
  Defence gate = Defence::kNone;  // what stopped it
  static void fields(auto& v, auto& self) {
    v("candidate", self.candidate);
    v("defines", self.defines);
    v("outcome", self.outcome);
    v("detail", self.detail);
    v("score", self.score);
    v("latencies", self.latencies);
    v.optional("gate", self.gate);
  }
};

}  // namespace ridge::record
