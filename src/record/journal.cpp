#include "record/journal.h"

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "record/json.h"

namespace ridge::record {
namespace {

const std::string kNoPrevious(64, '0');

Error broken(std::size_t line, std::size_t offset, std::string_view what) {
  return with_hint(Error{ErrorCode::kCorrupt, fmt::format("journal line {} (byte {}): {}", line, offset, what), {}},
                   "the file was edited or damaged after it was written; restore it from a copy");
}

}  // namespace

std::string event_hash(const Event& event) {
  Event unsigned_event = event;
  unsigned_event.hash.clear();
  return sha256(to_line(unsigned_event));
}

Result<JournalText> parse_journal(std::string_view text) {
  JournalText journal;
  std::string previous = kNoPrevious;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t line_number = journal.events.size() + 1;
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) {
      journal.torn_bytes = text.size() - offset;
      break;
    }
    const std::string_view line = text.substr(offset, end - offset);
    Result<Event> event = parse_record<Event>(line, "event");
    if (!event) return broken(line_number, offset, event.error().message);
    if (event->sequence != static_cast<std::int64_t>(journal.events.size())) {
      return broken(line_number, offset,
                    fmt::format("sequence {} where {} was expected", event->sequence, journal.events.size()));
    }
    if (event->previous != previous) return broken(line_number, offset, "does not follow the line before it");
    if (event->hash != event_hash(*event)) return broken(line_number, offset, "content does not match its hash");
    previous = event->hash;
    journal.events.push_back(std::move(*event));
    offset = end + 1;
  }
  return journal;
}

Result<JournalText> read_journal(const std::filesystem::path& path) {
  RIDGE_TRY(text, read_file(path));
  return parse_journal(text);
}

}  // namespace ridge::record
