// The campaigns of a folder as they are on disk now: read once, followed from then on by their new lines, and told of
// when they change.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "journal/follow.h"
#include "record/web.h"
#include "report/report.h"

namespace ridge::web {

// At most so many bytes of journals are kept in memory; those not asked for lately are read again when they are.
inline constexpr std::uintmax_t kLoadedBytes = std::uintmax_t{256} << 20;

class Store {
 public:
  // `only_doing`: nothing but what a process says that it does, which changes every second. Of a campaign that is gone
  // the card has the id alone.
  using Changed = std::function<void(const record::CampaignCard& card, bool only_doing)>;

  // `roots`: campaigns, and folders that hold campaigns. `changed` is called on the store's thread.
  Store(const std::vector<std::filesystem::path>& roots, Changed changed);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Reads and follows on a thread of its own until the store goes.
  void start();
  // One look at everything, as the thread does several times a second; for tests.
  void look();

  [[nodiscard]] std::vector<record::CampaignCard> cards() const;
  // An id is the name of the campaign's folder; of a second one of that name it is "above:name".
  // kNotFound for an id that is no campaign of the roots.
  [[nodiscard]] Result<record::CampaignCard> card(const std::string& id) const;
  [[nodiscard]] Result<std::filesystem::path> folder(const std::string& id) const;
  // Whether the only root is a campaign itself.
  [[nodiscard]] bool single() const { return single_; }

  // Calls with what the journal adds up to, which stays as it is during the call. Errors: kNotFound; why the journal
  // cannot be read.
  Status view(const std::string& id, const std::function<void(const report::Model&, const journal::State&)>& call);

 private:
  struct Entry {
    Entry(std::string name, std::filesystem::path at) : id(std::move(name)), directory(std::move(at)) {}
    std::string id;
    std::filesystem::path directory;
    std::uintmax_t size = 0;                      // of the journal when it was found
    std::mutex mutex;                             // of what follows
    std::unique_ptr<journal::Follower> follower;  // null: not in memory
    std::unique_ptr<report::Model> model;         // drawn from the follower's state, when asked for
    std::uintmax_t bytes = 0;
    std::string stamp, progress_stamp;  // of the files when they were looked at
    bool replaced = false;
    std::uint64_t used = 0;
    record::CampaignCard card;  // guarded by the store's mutex
  };
  using EntryPointer = std::shared_ptr<Entry>;

  void work();
  [[nodiscard]] std::map<std::string, std::filesystem::path> found() const;
  void scan();
  void look_at(Entry& entry);
  Status read(Entry& entry);
  static const report::Model& model_of(Entry& entry);
  [[nodiscard]] record::CampaignCard card_of(Entry& entry, const Status& status) const;
  void drop_unused();
  [[nodiscard]] EntryPointer find(const std::string& id) const;

  std::vector<std::filesystem::path> roots_;
  Changed changed_;
  bool single_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, EntryPointer> entries_;
  std::uint64_t uses_ = 0, versions_ = 0;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ridge::web
