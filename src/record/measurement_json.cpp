// Measurements, profiles and tuned choices as JSON.
#include "record/archive.h"
#include "record/measurement.h"
#include "record/profile.h"
#include "record/tuned.h"

namespace ridge::record {

template struct Codec<BenchReport>;
template struct Codec<Look>;
template struct Codec<BenchRow>;
template struct Codec<BuildEvidence>;
template struct Codec<Cost>;
template struct Codec<Param>;
template struct Codec<ProfileReport>;
template struct Codec<Protocol>;
template struct Codec<Session>;
template struct Codec<ShapeSamples>;
template struct Codec<TunedChoice>;
template struct Codec<std::vector<Ceiling>>;

}  // namespace ridge::record
