// What one element adds to the test for errors that lean to one side (numerics/bias.h). The same text is compiled for a
// GPU, in front of the kernels that compare outputs there, so it includes nothing.
#ifndef RIDGE_NUMERICS_BIAS_TERMS_H
#define RIDGE_NUMERICS_BIAS_TERMS_H

#ifdef __CUDACC__
#define RIDGE_BIAS_FUNCTION __device__ inline
#else
#define RIDGE_BIAS_FUNCTION inline
#endif

namespace ridge::numerics {

constexpr int kBiasBuckets = 4096;

// Errors against the exact value, and against the exact value as the output type rounds it.
constexpr int kBiasCentres = 2;

// Sums over the finite elements of one output.
struct BiasSums {
  double bucket[kBiasCentres][kBiasBuckets];  // of the leans of the elements that fall into a bucket
  double shift[kBiasCentres];                 // of what elements that differ may be off by in one direction
  double differing[kBiasCentres];             // elements that differ
  double finite;                              // elements
};

// Where an element is counted, from the bits of its exact value as a double. Equal values share a bucket, and so do x,
// -x and 2 x: rounding treats them alike, so that their errors may be copies of each other.
RIDGE_BIAS_FUNCTION int bias_bucket(unsigned long long value_bits) {
  unsigned long long x = (value_bits & 0xfffffffffffffull) * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return static_cast<int>(x >> 52);
}

// An error away from zero in units of `sigma`, the root of its expected square; `shift` is how much of it a right
// kernel may have in the same direction at every element.
struct BiasTerm {
  double lean, shift;
};
RIDGE_BIAS_FUNCTION BiasTerm bias_term(double error, double value, double sigma, double shift) {
  if (error == 0 || !(sigma > 0)) return {0, 0};
  return {(value < 0 ? -error : error) / sigma, shift / sigma};
}

}  // namespace ridge::numerics

#endif
