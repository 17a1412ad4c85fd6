// Matrix products in words, as the command lines of the benchmarks and the tables of the checks spell them.
#pragma once
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "gpu.h"
#include "ops/matmul/cuda_wgmma_model.h"
#include "ops/matmul/values.h"

namespace ridge::gpu {

using cuda::GemmActivation;
using cuda::GemmCase;
using cuda::GemmScaling;
using cuda::GemmType;
using cuda::WgmmaConfig;

// LAYOUT:WORDS:M,N,K. The words are joined by '-': first the type of A and B (bf16, f16, f32, tf32, e4m3, e5m2, or two
// 8-bit ones like e4m3e5m2), then in any order the type of C (default: A's, bf16 for 8-bit, f32 for tf32; with `add`
// for C +=), the scales of 8-bit operands (tensor, row, block, vector, mx), `promote`, and the epilogue (bias, gelu,
// gelutanh, silu, residual). For instance NT:bf16:4096,4096,4096, TN:bf16-f32add:..., NT:e4m3-block:...
struct Named {
  std::string layout, types;
  GemmCase g;
};

inline bool read_word(const std::string& word, GemmCase& g) {
  const std::map<std::string, GemmType> outputs = {
      {"bf16", GemmType::kBf16}, {"f16", GemmType::kF16}, {"f32", GemmType::kF32}};
  const std::map<std::string, GemmScaling> scalings = {{"tensor", GemmScaling::kTensor},
                                                       {"row", GemmScaling::kRow},
                                                       {"block", GemmScaling::kBlock},
                                                       {"vector", GemmScaling::kVector},
                                                       {"mx", GemmScaling::kMx}};
  const std::map<std::string, GemmActivation> activations = {
      {"gelu", GemmActivation::kGelu}, {"gelutanh", GemmActivation::kGeluTanh}, {"silu", GemmActivation::kSilu}};
  const bool adds = word.size() > 3 && word.ends_with("add");
  const std::string out = adds ? word.substr(0, word.size() - 3) : word;
  if (outputs.count(out)) {
    g.type_c = outputs.at(out);
    g.accumulate = adds;
  } else if (scalings.count(word)) {
    g.scaling = scalings.at(word);
  } else if (activations.count(word)) {
    g.activation = activations.at(word);
  } else if (word == "promote") {
    g.promote = true;
  } else if (word == "bias") {
    g.bias = true;
  } else if (word == "residual") {
    g.residual = true;
  } else {
    return false;
  }
  return true;
}

inline Named parse(const std::string& text) {
  Named named;
  char layout[8], types[64];
  long long m, n, k;
  if (std::sscanf(text.c_str(), "%7[A-Z]:%63[a-z0-9-]:%lld,%lld,%lld", layout, types, &m, &n, &k) != 5) {
    fail("cannot read the shape " + text + "; expected for instance NT:bf16:4096,4096,4096");
  }
  named.layout = layout;
  named.types = types;
  auto& g = named.g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a_mn_major = layout[0] == 'T';
  g.b_mn_major = layout[1] == 'N';
  const std::map<std::string, GemmType> inputs = {{"bf16", GemmType::kBf16}, {"f16", GemmType::kF16},
                                                  {"f32", GemmType::kF32},   {"tf32", GemmType::kTf32},
                                                  {"e4m3", GemmType::kE4m3}, {"e5m2", GemmType::kE5m2}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= named.types.size();) {
    const std::size_t end = std::min(named.types.find('-', begin), named.types.size());
    words.push_back(named.types.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool two = words[0].size() == 8;
  const std::string first = two ? words[0].substr(0, 4) : words[0], second = two ? words[0].substr(4) : words[0];
  if (!inputs.count(first) || !inputs.count(second)) fail("unknown operand type " + words[0] + " in " + text);
  g.type_a = inputs.at(first);
  g.type_b = inputs.at(second);
  g.type_c = g.eight_bit() ? GemmType::kBf16 : g.type_a == GemmType::kTf32 ? GemmType::kF32 : g.type_a;
  if (g.eight_bit()) g.scaling = GemmScaling::kTensor;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!read_word(words[i], g)) fail("unknown word " + words[i] + " in " + text);
  }
  return named;
}

}  // namespace ridge::gpu
