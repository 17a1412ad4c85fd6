// A spec sheet as the hardware store of another system keeps it (its schema "hw-1.0"): facts of one product with how
// each came about. A field whose value no source states is null, and `unavailable` says how to get it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ridge::record {

struct ExchangedPeak {
  std::string dtype, unit, unit_kind;   // unit_kind: tensor-core | cuda-core, whatever the vendor calls them
  std::optional<double> dense, sparse;  // TFLOPS or TOPS
  std::optional<std::string> accumulate;
  std::string provenance;
  std::optional<std::string> derivation;
  static void fields(auto& v, auto& self) {
    v("dtype", self.dtype);
    v("unit", self.unit);
    v("unit_kind", self.unit_kind);
    v("dense", self.dense);
    v("sparse_2to4", self.sparse);
    v("accumulate", self.accumulate);
    v("provenance", self.provenance);
    v("derivation", self.derivation);
  }
};

struct ExchangedMemory {
  std::optional<double> capacity_gb, bandwidth_tb_s;
  std::optional<std::int64_t> bus_width_bits;
  std::optional<double> l2_cache_mb, last_level_cache_mb;
  std::string provenance;
  std::map<std::string, std::string> overrides;  // field -> provenance, where it is another one
  static void fields(auto& v, auto& self) {
    v("capacity_gb", self.capacity_gb);
    v("bandwidth_tb_s", self.bandwidth_tb_s);
    v("bus_width_bits", self.bus_width_bits);
    v("l2_cache_mb", self.l2_cache_mb);
    v("last_level_cache_mb", self.last_level_cache_mb);
    v("provenance", self.provenance);
    v("provenance_overrides", self.overrides);
  }
};

struct ExchangedUnits {
  std::optional<std::int64_t> sm_count, cuda_cores, cuda_cores_per_sm, tensor_cores, tensor_cores_per_sm;
  std::optional<double> register_file_kb_per_sm, shared_memory_kb_per_sm;
  std::string provenance;
  std::map<std::string, std::string> overrides;
  static void fields(auto& v, auto& self) {
    v("sm_count", self.sm_count);
    v("cuda_cores", self.cuda_cores);
    v("cuda_cores_per_sm", self.cuda_cores_per_sm);
    v("tensor_cores", self.tensor_cores);
    v("tensor_cores_per_sm", self.tensor_cores_per_sm);
    v("register_file_kb_per_sm", self.register_file_kb_per_sm);
    v("shared_memory_kb_per_sm", self.shared_memory_kb_per_sm);
    v("provenance", self.provenance);
    v("provenance_overrides", self.overrides);
  }
};

struct ExchangedFacts {
  std::string summary;
  std::vector<std::string> usage_notes;
  std::vector<ExchangedPeak> peak_compute;
  ExchangedMemory memory;
  ExchangedUnits compute_units;
  std::map<std::string, double> interconnect, power;
  std::map<std::string, std::string> unavailable;  // field -> why, or how to get it
  static void fields(auto& v, auto& self) {
    v("summary", self.summary);
    v("usage_notes", self.usage_notes);
    v("peak_compute", self.peak_compute);
    v("memory", self.memory);
    v("compute_units", self.compute_units);
    v("interconnect", self.interconnect);
    v("power", self.power);
    v("unavailable", self.unavailable);
  }
};

struct ExchangedIdentity {
  std::string vendor, arch, product;
  std::optional<std::string> compute_capability, sm_arch;
  static void fields(auto& v, auto& self) {
    v("vendor", self.vendor);
    v("arch", self.arch);
    v("product", self.product);
    v("compute_capability", self.compute_capability);
    v("sm_arch", self.sm_arch);
  }
};

struct ExchangedSource {
  std::string title, kind;
  std::optional<std::string> ref;
  static void fields(auto& v, auto& self) {
    v("title", self.title);
    v("kind", self.kind);
    v("ref", self.ref);
  }
};

struct ExchangedProvenance {
  std::string evidence_class;
  std::vector<ExchangedSource> sources;
  std::optional<std::string> last_verified;
  static void fields(auto& v, auto& self) {
    v("evidence_class", self.evidence_class);
    v("sources", self.sources);
    v("last_verified", self.last_verified);
  }
};

struct ExchangedSheet {
  std::string schema = "hw-1.0", id, type = "spec-sheet", status = "current";
  ExchangedIdentity identity;
  ExchangedFacts facts;
  ExchangedProvenance provenance;
  static void fields(auto& v, auto& self) {
    v("schema", self.schema);
    v("id", self.id);
    v("type", self.type);
    v("status", self.status);
    v("identity", self.identity);
    v("facts", self.facts);
    v("provenance", self.provenance);
  }
};

}  // namespace ridge::record
