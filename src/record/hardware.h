// What the command line answers about hardware: facts with their sources, what a check of them found, where a case
// stands under the roofline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::record {

struct SpecSource {
  std::string value, from;
  static void fields(auto& v, auto& self) {
    v("value", self.value);
    v("from", self.from);
  }
};

// One fact of a product. `state` is known, unknown or none; only a known fact has a value and a source.
struct SpecFact {
  std::string metric, state, value;
  std::optional<double> base_value;  // in base units: FLOP/s, byte/s, byte, Hz
  std::string base_unit, from, document, evidence, formula, note, conflict;
  std::vector<SpecSource> also;
  std::string citation;
  static void fields(auto& v, auto& self) {
    v("metric", self.metric);
    v("state", self.state);
    v("value", self.value);
    v.optional("base_value", self.base_value);
    v("base_unit", self.base_unit);
    v("from", self.from);
    v("document", self.document);
    v("evidence", self.evidence);
    v("formula", self.formula);
    v("note", self.note);
    v("conflict", self.conflict);
    v("also", self.also);
    v("citation", self.citation);
  }
};

struct SpecSheet {
  std::string name, product, vendor, kind, architecture, target;
  std::vector<SpecFact> facts;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("product", self.product);
    v("vendor", self.vendor);
    v("kind", self.kind);
    v("architecture", self.architecture);
    v("target", self.target);
    v("facts", self.facts);
  }
};

struct SpecSummary {
  std::string name, product, vendor, kind, architecture, target;
  std::int64_t known = 0, unknown = 0;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("product", self.product);
    v("vendor", self.vendor);
    v("kind", self.kind);
    v("architecture", self.architecture);
    v("target", self.target);
    v("known", self.known);
    v("unknown", self.unknown);
  }
};

struct SpecDifference {
  std::string metric, left, right;
  std::optional<double> ratio;  // right / left
  static void fields(auto& v, auto& self) {
    v("metric", self.metric);
    v("left", self.left);
    v("right", self.right);
    v.optional("ratio", self.ratio);
  }
};

// One fact of a spec beside what the machine itself reports.
struct SpecProbeRow {
  std::string metric, stated, device;
  bool agrees = false;
  static void fields(auto& v, auto& self) {
    v("metric", self.metric);
    v("stated", self.stated);
    v("device", self.device);
    v("agrees", self.agrees);
  }
};

struct SpecProbe {
  std::string device, product;  // product: the spec compared with; empty when none is of this device
  std::vector<SpecProbeRow> rows;
  static void fields(auto& v, auto& self) {
    v("device", self.device);
    v("product", self.product);
    v("rows", self.rows);
  }
};

struct LintFinding {
  std::string file;
  std::int64_t line = 0;
  std::string rule, message;
  static void fields(auto& v, auto& self) {
    v("file", self.file);
    v("line", self.line);
    v("rule", self.rule);
    v("message", self.message);
  }
};

struct LintReport {
  bool ok = false;
  std::int64_t products = 0, facts = 0, unknown = 0, files = 0, citations = 0;
  std::vector<std::string> gaps;
  std::vector<LintFinding> findings;
  static void fields(auto& v, auto& self) {
    v("ok", self.ok);
    v("products", self.products);
    v("facts", self.facts);
    v("unknown", self.unknown);
    v("files", self.files);
    v("citations", self.citations);
    v("gaps", self.gaps);
    v("findings", self.findings);
  }
};

// One limit of a machine beside what a problem asks of it: "bf16 matrix" in FLOP/s, "memory", "L2", "shared memory" in
// B/s.
struct RooflineAxis {
  std::string name, unit;
  double peak = 0;  // what the bound rests on: the measured ceiling where there is one, else the cited peak
  bool measured = false;
  std::string source;                    // the citation line, or how it was measured
  std::string cited;                     // of a measured one: what the database cites for the same limit
  double work = 0;                       // FLOP or bytes
  double time = 0;                       // work / peak: seconds, were this the only limit
  double achieved = 0, utilisation = 0;  // with a latency: work / latency, and that over the peak
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("unit", self.unit);
    v("peak", self.peak);
    v("measured", self.measured);
    v("source", self.source);
    v.optional("cited", self.cited);
    v("work", self.work);
    v("time", self.time);
    v("achieved", self.achieved);
    v("utilisation", self.utilisation);
  }
};

// Where one problem stands on one machine, and when an optimisation of it is done.
struct RooflineReport {
  std::string label, on;
  double flop = 0, bytes = 0;  // bytes of the outermost memory: compulsory, or as a profiler counted them
  double compulsory_bytes = 0;
  bool profiled = false;            // `bytes` came from a profiler
  double intensity = 0, ridge = 0;  // FLOP per byte: of the problem, and where the two roofs of the machine meet
  std::vector<RooflineAxis> axes;   // arithmetic first, then memory from the outside in
  std::string bound;                // name of the axis that limits
  double bound_time = 0;            // seconds: nothing on this machine is faster
  double latency = 0;               // seconds; 0: not given
  double utilisation = 0;           // bound_time / latency
  std::string limit;                // compute | memory | latency | launch | at-ceiling; empty without a latency
  double target_fraction = 0.9, target_latency = 0;
  std::string calculation;  // how the target follows, with its numbers
  std::vector<std::string> stop_conditions;
  std::vector<std::string> unknown;  // limits that no source states: the bound rests on the others
  static void fields(auto& v, auto& self) {
    v("label", self.label);
    v("on", self.on);
    v("flop", self.flop);
    v("bytes", self.bytes);
    v("compulsory_bytes", self.compulsory_bytes);
    v("profiled", self.profiled);
    v("intensity", self.intensity);
    v("ridge", self.ridge);
    v("axes", self.axes);
    v("bound", self.bound);
    v("bound_time", self.bound_time);
    v("latency", self.latency);
    v("utilisation", self.utilisation);
    v("limit", self.limit);
    v("target_fraction", self.target_fraction);
    v("target_latency", self.target_latency);
    v("calculation", self.calculation);
    v("stop_conditions", self.stop_conditions);
    v.optional("unknown", self.unknown);
  }
};

}  // namespace ridge::record
