#define RIDGE_STEP step_avx2
#include "ops/adamw/simd/step_body.h"
