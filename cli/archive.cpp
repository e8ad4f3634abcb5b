#include "cli/archive.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/optimization.hpp"
#include "cli/terminal.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/version.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <vector>

namespace stagger::cli {
namespace {

constexpr const char* kSchema = "stagger.best-known/1";

/// What is known of one problem. A tile is a token; compute and reduce are the defaults.
struct Entry {
  std::string mask;  ///< as `--mask` takes it
  std::int64_t n = 0;
  std::int64_t heads = 1;
  std::int64_t sms = 0;
  std::string model;
  std::optional<Ticks> makespan;  ///< absent: not searched yet
  Ticks lower_bound = 0;
  std::string by;
  std::string status;
  std::string proof;
  std::string version;  ///< of Stagger, that found the makespan
};

Entry read_entry(const JsonValue& value) {
  value.expect_keys({"mask", "n", "heads", "sms", "model", "makespan", "lower_bound", "by",
                     "status", "proof", "version"});
  Entry entry{.mask = value.at("mask").string(),
              .n = value.at("n").integer(1, kMaxTiles),
              .heads = value.at("heads").integer(1, kMaxHeads),
              .sms = value.at("sms").integer(1, kMaxSms),
              .model = value.at("model").string(),
              .makespan = {},
              .by = {},
              .status = {},
              .proof = {},
              .version = {}};
  if (entry.model != "chain" && entry.model != "overlap" && entry.model != "slot") {
    value.at("model").reject("unknown model '" + entry.model + "'; known: chain, overlap, slot");
  }
  if (!value.has("makespan")) return entry;
  constexpr Ticks kMost = Ticks{1} << 62;
  entry.makespan = value.at("makespan").integer(0, kMost);
  entry.lower_bound = value.at("lower_bound").integer(0, kMost);
  entry.by = value.at("by").string();
  entry.status = value.at("status").string();
  entry.proof = value.at("proof").string();
  entry.version = value.at("version").string();
  return entry;
}

std::vector<Entry> read_archive(const std::string& path) {
  const JsonDocument document(read_file(path), path);
  const JsonValue& root = document.root();
  root.expect_schema(kSchema);
  root.expect_keys({"schema", "entries"});
  const JsonValue entries = root.at("entries");
  std::vector<Entry> archive;
  for (std::size_t index = 0; index < entries.size(); ++index)
    archive.push_back(read_entry(entries.item(index)));
  return archive;
}

/// An entry a line, so that a change is a line of a diff.
std::string write_archive(const std::vector<Entry>& archive) {
  std::string text = fmt::format("{{\"schema\": \"{}\",\n\"entries\": [", kSchema);
  const char* separator = "\n";
  for (const Entry& entry : archive) {
    text += fmt::format("{}{{\"mask\": {}, \"n\": {}, \"heads\": {}, \"sms\": {}, \"model\": {}",
                        separator, json_quote(entry.mask), entry.n, entry.heads, entry.sms,
                        json_quote(entry.model));
    if (entry.makespan) {
      text += fmt::format(
          ", \"makespan\": {}, \"lower_bound\": {}, \"by\": {}, \"status\": {}, \"proof\": {}, "
          "\"version\": {}",
          *entry.makespan, entry.lower_bound, json_quote(entry.by), json_quote(entry.status),
          json_quote(entry.proof), json_quote(entry.version));
    }
    text += "}";
    separator = ",\n";
  }
  return text + "]}\n";
}

enum class Outcome { holds, is_new, better, not_reached, contradicted };
constexpr std::array kOutcomeNames = {"holds", "new", "better", "not reached", "contradicted"};

class Check {
 public:
  explicit Check(const Options& options)
      : options_(options), archive_(read_archive(options.archive)) {}

  void run() {
    Progress progress("searching the archive");
    for (std::size_t index = 0; index < archive_.size() && !interrupted();
         index += static_cast<std::size_t>(options_.every)) {
      progress.show(static_cast<double>(index) / static_cast<double>(archive_.size()));
      check(archive_[index]);
    }
  }

  [[nodiscard]] const std::vector<Entry>& archive() const { return archive_; }

  [[nodiscard]] std::string text() const {
    return lines_ + fmt::format(
                        "{} entries: {} hold, {} new, {} better, {} not reached, {} "
                        "contradicted; {} of those searched are proved optimal\n",
                        archive_.size(), count(Outcome::holds), count(Outcome::is_new),
                        count(Outcome::better), count(Outcome::not_reached),
                        count(Outcome::contradicted), optimal_);
  }

  [[nodiscard]] std::string json() const {
    nlohmann::ordered_json json = {{"schema", "stagger.archive-check/1"},
                                   {"version", version()},
                                   {"entries", archive_.size()}};
    for (std::size_t outcome = 0; outcome < counts_.size(); ++outcome)
      json[kOutcomeNames[outcome]] = counts_[outcome];
    json["optimal"] = optimal_;
    return json.dump(1) + "\n";
  }

  [[nodiscard]] int exit_code() const {
    if (interrupted()) return kInterrupted;
    if (count(Outcome::contradicted) > 0) return kViolated;
    return count(Outcome::not_reached) > 0 ? kLimit : kHolds;
  }

 private:
  [[nodiscard]] std::int64_t count(Outcome outcome) const {
    return counts_[static_cast<std::size_t>(outcome)];
  }

  void check(Entry& entry) {
    Options options = options_;
    options.mask = entry.mask;
    options.n = entry.n;
    options.heads = entry.heads;
    options.sms = entry.sms;
    options.slot_model = entry.model == "slot";
    if (!options.slot_model) {
      options.model = entry.model == "overlap" ? Model::overlap : Model::chain;
    }
    Optimization search(options);
    search.run();
    const search::Optimum& optimum = search.optimum();
    if (!optimum.best) return;
    optimal_ += optimum.proof == search::ProofKind::none ? 0 : 1;
    const Ticks found = optimum.best->makespan;
    const Outcome outcome = compare(entry, found, optimum.lower_bound.ticks);
    ++counts_[static_cast<std::size_t>(outcome)];
    if (outcome != Outcome::holds) {
      lines_ += fmt::format("{}: {} n={} m={} S={} {}: {}{}\n",
                            kOutcomeNames[static_cast<std::size_t>(outcome)], entry.mask, entry.n,
                            entry.heads, entry.sms, entry.model, found,
                            entry.makespan ? fmt::format(" (known {})", *entry.makespan) : "");
    }
    const bool proves_more = outcome == Outcome::holds && entry.status != "optimal" &&
                             optimum.lower_bound.ticks > entry.lower_bound;
    if (outcome == Outcome::is_new || outcome == Outcome::better || proves_more) {
      entry.makespan = found;
      entry.lower_bound = optimum.lower_bound.ticks;
      entry.by = optimum.lower_bound.by;
      entry.status = search.status();
      entry.proof = search.proof();
      entry.version = version();
    }
  }

  /// A shorter table than an optimum, or a bound above a makespan, contradicts the entry.
  static Outcome compare(const Entry& entry, Ticks found, Ticks lower_bound) {
    if (!entry.makespan) return Outcome::is_new;
    const bool below_bound = found < entry.lower_bound;
    if (lower_bound > *entry.makespan || below_bound) return Outcome::contradicted;
    if (found < *entry.makespan) return Outcome::better;
    return found == *entry.makespan ? Outcome::holds : Outcome::not_reached;
  }

  const Options& options_;
  std::vector<Entry> archive_;
  std::array<std::int64_t, kOutcomeNames.size()> counts_{};
  std::int64_t optimal_ = 0;
  std::string lines_;
};

}  // namespace

int check_archive(const Options& options) {
  Check check(options);
  check.run();
  if (!options.output.empty()) write_file(options.output, write_archive(check.archive()));
  if (options.json) {
    write_stdout(check.json());
  } else {
    write_text(check.text(), terminal_of(options));
  }
  return check.exit_code();
}

}  // namespace stagger::cli
