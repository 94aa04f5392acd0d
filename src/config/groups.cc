// Several Rung groups in one file: conflicts between them, and the choice of one.
#include <algorithm>

#include "src/config/draft.h"
#include "src/core/base/url.h"

namespace rung {

std::string which_group(const QueueGroups& groups) {
  return "the config has groups: choose one with --group NAME or RUNG_GROUP: " + groups.names();
}

namespace confile {
namespace {

constexpr int kMysqlPort = 3306;

class Groups {
 public:
  Groups(Draft& draft, Problems& problems) : draft_(draft), problems_(problems) {}

  void run() {
    check_misplaced_keys();
    for (std::size_t i = 0; i < draft_.groups.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) compare(draft_.groups[j], draft_.groups[i]);
    }
    choose_group();
  }

 private:
  // Keys that each group must set itself.
  void check_misplaced_keys() {
    for (const std::string key : {"store.url", "store.urls", "broker.prefix"}) {
      if (!draft_.present.contains(key)) continue;
      const std::string place = key == "broker.prefix" ? "groups.NAME.prefix" : "groups.NAME." + key;
      problems_.add(draft_.mark(key), key + ": each group needs its own: write it as " + place);
    }
  }

  void compare(const GroupDraft& first, const GroupDraft& second) {
    const auto prefix = [](const GroupDraft& g) { return g.prefix.empty() ? "rung-" + g.name : g.prefix; };
    if (prefix(first) == prefix(second)) {
      const std::string path = second.path("prefix");
      problems_.add(draft_.present.contains(path) ? draft_.mark(path) : second.mark,
                    path + ": same prefix as group " + first.name + ": each group needs its own prefix");
    }
    if (same_database(first, second)) {
      const std::string path = second.path(second.other_urls.empty() ? "store.url" : "store.urls");
      problems_.add(draft_.mark(path), path + ": same host, port and schema as group " + first.name +
                                           ": each group needs its own database");
    }
    for (std::size_t i = 0; i < second.queues.size(); ++i) {
      if (std::ranges::find(first.queues, second.queues[i]) == first.queues.end()) continue;
      problems_.add(second.queue_marks[i], second.path("queues") + ": " + first.name +
                                               " has the same entry: a queue belongs to one group");
    }
  }

  std::vector<Url> urls(const GroupDraft& group) const {
    std::vector<Url> all;
    if (!draft_.has_valid(group.path("store.url")) && !draft_.has_valid(group.path("store.urls"))) return all;
    if (auto url = parse_url(group.url)) all.push_back(*std::move(url));
    for (const std::string& text : group.other_urls) {
      if (auto url = parse_url(text)) all.push_back(*std::move(url));
    }
    return all;
  }

  bool same_database(const GroupDraft& first, const GroupDraft& second) const {
    const auto others = urls(second);
    return std::ranges::any_of(urls(first), [&](const Url& one) {
      return std::ranges::any_of(others, [&](const Url& other) {
        return one.path == other.path && one.host_port(kMysqlPort) == other.host_port(kMysqlPort);
      });
    });
  }

  void choose_group() {
    QueueGroups& groups = draft_.config.groups = groups_of(draft_);
    draft_.config.broker.prefix.clear();
    const GroupChoice& choice = draft_.choice;
    if (choice.name.empty()) {
      if (!choice.queue.empty()) {
        problems_.add({}, "no group has queue " + in_quotes(choice.queue) +
                              ": add it to groups.NAME.queues, or use --group NAME: " + groups.names());
      } else if (draft_.purpose != ConfigFor::broker && draft_.purpose != ConfigFor::check) {
        problems_.add({}, which_group(groups));
      }
      return;
    }
    const auto* group = groups.find(choice.name);
    if (group == nullptr) {
      problems_.add({}, choice.source + ": unknown group " + in_quotes(choice.name) +
                            ": available groups: " + groups.names());
      return;
    }
    groups.own = group->name;
    draft_.config.broker.prefix = group->prefix;
    const auto& own = *std::ranges::find(draft_.groups, group->name, &GroupDraft::name);
    if (own.listen.empty()) return;
    draft_.config.http.listen = own.listen;
    draft_.present["http.listen"] = draft_.present[own.path("http.listen")];
  }

  Draft& draft_;
  Problems& problems_;
};

}  // namespace

QueueGroups groups_of(const Draft& draft) {
  QueueGroups groups;
  for (const GroupDraft& group : draft.groups)
    groups.all.push_back(
        {group.name, group.prefix.empty() ? "rung-" + group.name : group.prefix, group.queues});
  return groups;
}

void resolve_groups(Draft& draft, Problems& problems) {
  if (!draft.groups.empty()) return Groups(draft, problems).run();
  const GroupChoice& choice = draft.choice;
  if (!choice.name.empty() && !draft.present.contains("groups"))
    problems.add({}, choice.source + " is " + in_quotes(choice.name) +
                         ", but the config has no groups: omit it, or add groups: (docs/performance.md)");
}

void use_group_store(Draft& draft) {
  const auto own = std::ranges::find(draft.groups, draft.config.groups.own, &GroupDraft::name);
  if (own == draft.groups.end()) return;
  draft.config.store.url = own->url;
  draft.config.store.other_urls = own->other_urls;
  if (!own->password_file.empty()) draft.config.store.password_file = own->password_file;
}

}  // namespace confile
}  // namespace rung
