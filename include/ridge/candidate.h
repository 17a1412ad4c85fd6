/* The interface of a CPU candidate: C, self-contained, the only header of Ridgeline that a candidate includes.
 *
 * A candidate defines
 *     int ridge_kernel(const ridge_call* call);          (extern "C" in C++)
 * and returns 0 when the outputs are written, anything else when it cannot do this call (the candidate then fails).
 *
 *   operands  in the order of the operator's contract, inputs first. gemm: a, b, c (c alone is written).
 *             data is aligned to 64 bytes; stride is in elements and the last stride is 1 unless the contract says
 *             otherwise; rows may be padded (stride[0] > shape[1]), and no byte outside the elements may be written.
 *   params    the parameters of the case in the operator's own order: a whole number as itself, a flag as 0 or 1, a
 *             named value as its index in the list that `ridge ops list` prints, a real number as the bits of its
 *             double (ridge_real). gemm: m, n, k, then dtype, layout, ... as indices.
 *   scalars   what every call may have anew, beside its case (a scale, a seed): in the operator's own order, each in
 * the member of its type. None for an operator without scalars. threads   how many threads this call may use. The
 * process is pinned to that many cores. When ridge_kernel returns, no thread of the candidate may still be running:
 * waiting threads must sleep, not spin.
 *
 * Private memory may be kept between calls (packing buffers, thread pools); results and addresses may not: every call
 * has new content, and its output is verified. Files, sockets, processes and executable memory are refused.
 *
 * The version changes when a candidate would have to; members are only ever added at the end, so an older candidate
 * runs unchanged. */
#ifndef RIDGE_CANDIDATE_H
#define RIDGE_CANDIDATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RIDGE_CANDIDATE_VERSION = 1, RIDGE_MAX_RANK = 5 };

/* Element types; the numbers are those of ridge::DType. bf16 and f16 elements are uint16_t, 8-bit codes uint8_t. */
enum {
  RIDGE_F64 = 0,
  RIDGE_F32 = 1,
  RIDGE_F16 = 2,
  RIDGE_BF16 = 3,
  RIDGE_E4M3FN = 4,
  RIDGE_E5M2 = 5,
  RIDGE_E4M3FNUZ = 6,
  RIDGE_E5M2FNUZ = 7,
  RIDGE_E2M1 = 8,
  RIDGE_E8M0 = 9,
  RIDGE_I32 = 10,
  RIDGE_I64 = 11,
  RIDGE_U8 = 12,
  RIDGE_U64 = 13
};

typedef struct ridge_tensor {
  void* data;
  int32_t dtype;
  int32_t rank;
  int64_t shape[RIDGE_MAX_RANK];
  int64_t stride[RIDGE_MAX_RANK]; /* in elements */
} ridge_tensor;

typedef union ridge_scalar {
  float f32;
  double f64;
  int64_t i64;
  uint64_t u64;
} ridge_scalar;

typedef struct ridge_call {
  int32_t version; /* RIDGE_CANDIDATE_VERSION */
  int32_t threads;
  int32_t operand_count;
  int32_t param_count;
  const ridge_tensor* operands;
  const int64_t* params;
  const ridge_scalar* scalars;
  int32_t scalar_count;
  int32_t reserved;
} ridge_call;

/* A parameter that is a real number. */
static inline double ridge_real(const ridge_call* call, int32_t param) {
  double value;
  __builtin_memcpy(&value, call->params + param, sizeof value);
  return value;
}

int ridge_kernel(const ridge_call* call);

#ifdef __cplusplus
}
#endif

#endif
