// Which tile of a symmetric matrix comes next, of those on and above its diagonal. This includes nothing: kernels and a
// test on the host have their own words for __device__.
//
// A row of tiles is kAcross tiles high: tile (row, col) is on the list where col >= kAcross * row. The list is cut into
// bands of `group` rows, so that tiles in flight form a compact rectangle; a band is walked column by column, first the
// staircase at the diagonal, and every second band from its end, where the columns of the band before end as well.
namespace ridge::cuda {

struct TriangleTile {
  unsigned row, col;
};

// Tiles in the first `columns` columns of the staircase: its column c has c / kAcross + 1.
template <unsigned kAcross>
__device__ inline unsigned staircase_tiles(unsigned columns) {
  const unsigned full = columns / kAcross;
  return kAcross * (full * (full + 1) / 2) + (columns - full * kAcross) * (full + 1);
}

// Of a matrix of `rows` by `cols` tiles, which has (rows - 1) * kAcross < cols.
template <unsigned kAcross>
__device__ inline TriangleTile triangle_tile(unsigned rows, unsigned cols, unsigned group, unsigned index) {
  unsigned first = 0, size = 0, stairs = 0, stair_tiles = 0, tiles = 0;
  bool turned = true;
  for (;; first += size, index -= tiles) {
    const unsigned left = cols - first * kAcross;
    size = rows - first < group ? rows - first : group;
    stairs = left < size * kAcross ? left : size * kAcross;
    stair_tiles = staircase_tiles<kAcross>(stairs);
    tiles = stair_tiles + (left - stairs) * size;
    turned = !turned;
    if (index < tiles) break;
  }
  if (turned) index = tiles - 1 - index;
  if (index >= stair_tiles) {
    const unsigned column = (index - stair_tiles) / size;
    return {first + (index - stair_tiles - column * size), first * kAcross + stairs + column};
  }
  unsigned column = 0;
  while (index > column / kAcross) {
    index -= column / kAcross + 1;
    ++column;
  }
  return {first + index, first * kAcross + column};
}

}  // namespace ridge::cuda
