#define RIDGE_STEP step_avx512
#include "ops/adamw/simd/step_body.h"
