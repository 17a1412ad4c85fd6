// out[i] = sum over j of in[i * columns + j]
#pragma once

#include <cstddef>

void rowsum(const float* in, std::size_t rows, std::size_t columns, float* out);
