#define RIDGE_STEP step_portable
#include "ops/adamw/simd/step_body.h"
