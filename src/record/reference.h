// What judges the kernel of a workspace when it is no operator of Ridgeline: what a reference in C++ says of itself,
// and what the harness found out about a reference before anything rests on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

// Written in a comment of the reference's source:
//
//   /* ridge-reference
//   function = "scaled_softmax"
//   sizes = ["rows", "columns"]
//   inputs = ["x: rows columns", "scale: columns in 0.5 2"]   # drawn between these numbers; -1 and 1 where none stand
//   outputs = ["out: rows columns"]
//   sums = "columns"          # how many numbers one element adds up (optional)
//   flop = "5 rows columns"   # of a call (optional)
//   */
//   void scaled_softmax(const double* x, const double* scale, double* out, std::int64_t rows, std::int64_t columns);
struct ReferenceOperand {
  std::string name;
  std::vector<std::string> sizes;
  double low = -1, high = 1;
};
struct ReferenceBlock {
  std::string function;
  std::vector<std::string> sizes;
  std::vector<ReferenceOperand> inputs, outputs;
  std::vector<std::string> sums, flop;  // factors: sizes, and of flop numbers
};
// An error names the line and the key; a source without the comment is one too.
Result<ReferenceBlock> parse_reference_block(std::string_view source);

// A tensor, or a number that a call takes beside them.
struct OperandFacts {
  std::string name, dtype;  // "float32"; of a number "float" or "int"
  std::vector<std::int64_t> shape;
  std::optional<double> scalar;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("dtype", self.dtype);
    v("shape", self.shape);
    v.optional("scalar", self.scalar);
  }
};
struct ReferenceShape {
  std::vector<OperandFacts> inputs, parameters, outputs;
  double bytes = 0, flop = 0;  // of a forward call; flop 0: not counted
  std::int64_t sums = 1;       // numbers that one element of an output adds up, at most
  double least_snr_db = 0;     // of a kernel whose every element is off by all that is allowed; 0: not known
  double largest_error = 0;    // that is allowed of any element
  static void fields(auto& v, auto& self) {
    v("inputs", self.inputs);
    v("parameters", self.parameters);
    v("outputs", self.outputs);
    v("bytes", self.bytes);
    v("flop", self.flop);
    v("sums", self.sums);
    v("least_snr_db", self.least_snr_db);
    v("largest_error", self.largest_error);
  }
};
// `test_kernel.py --describe`: the facts, or why the reference cannot judge.
struct ReferenceFacts {
  std::string problem;
  std::vector<std::string> sizes;  // names of the whole numbers at the end of a library's function
  std::map<std::string, ReferenceShape> shapes;
  static void fields(auto& v, auto& self) {
    v.optional("problem", self.problem);
    v.optional("sizes", self.sizes);
    v.optional("shapes", self.shapes);
  }
};

}  // namespace ridge::record
