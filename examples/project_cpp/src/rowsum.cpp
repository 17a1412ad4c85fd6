#include "rowsum.h"

// Walks down the columns: every access touches another cache line.
void rowsum(const float* in, std::size_t rows, std::size_t columns, float* out) {
  for (std::size_t i = 0; i < rows; ++i) out[i] = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t i = 0; i < rows; ++i) out[i] += in[i * columns + j];
  }
}
