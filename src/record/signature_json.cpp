// Signatures and time stamps as JSON.
#include "record/archive.h"
#include "record/signature.h"

namespace ridge::record {

template struct Codec<Signature>;
template struct Codec<Timestamp>;

}  // namespace ridge::record
