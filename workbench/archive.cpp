#include "workbench/archive.hpp"

#include "core/error.hpp"
#include "core/json.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/version.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr const char* kArchiveSchema = "stagger.best-known/1";
constexpr const char* kModels[] = {"chain", "overlap", "slot"};
constexpr std::size_t kSlotModel = 2;

Problem read_entry_problem(const JsonValue& entry) {
  const std::int64_t n = entry.at("n").integer(1, kMaxTiles);
  const std::int64_t heads = entry.at("heads").integer(1, kMaxHeads);
  const std::int64_t sms = entry.at("sms").integer(1, kMaxSms);
  Grouping grouping;  // parts, where there are several, are partials
  if (entry.has("heads_kv")) grouping.heads_kv = entry.at("heads_kv").integer(1, kMaxHeads);
  if (entry.has("span")) grouping.span = entry.at("span").integer(1, kMaxHeads);
  const JsonValue mask = entry.at("mask");
  const std::string words = mask.string();
  try {
    return make_problem(parse_mask(words), {n, n}, {}, heads, sms, grouping);
  } catch (const Error& error) {
    mask.reject(error.what());
  }
}

BestKnown read_best(const JsonValue& entry) {
  constexpr Ticks kMost = Ticks{1} << 62;
  return {.makespan = entry.at("makespan").integer(0, kMost),
          .lower_bound = entry.at("lower_bound").integer(0, kMost),
          .by = entry.at("by").string(),
          .status = entry.at("status").string(),
          .proof = entry.at("proof").string(),
          .version = entry.at("version").string()};
}

ArchiveEntry read_entry(const JsonValue& value) {
  value.expect_keys({"mask", "n", "heads", "heads_kv", "span", "sms", "model", "makespan",
                     "lower_bound", "by", "status", "proof", "version"});
  ArchiveEntry entry{.problem = read_entry_problem(value), .best = {}};
  const std::size_t model = value.at("model").word("model", kModels);
  entry.slot_model = model == kSlotModel;
  if (!entry.slot_model) entry.model = static_cast<Model>(model);
  if (value.has("makespan")) entry.best = read_best(value);
  return entry;
}

Json entry_json(const ArchiveEntry& entry) {
  const Problem& problem = entry.problem;
  Json json = {
      {"mask", mask_words(problem.mask)}, {"n", problem.kv_tiles()}, {"heads", problem.heads}};
  if (problem.group() > 1) json.append({{"heads_kv", problem.heads_kv}, {"span", problem.span}});
  json.append({{"sms", problem.sms}, {"model", entry.model_word()}});
  if (entry.best) {
    json.append({{"makespan", entry.best->makespan},
                 {"lower_bound", entry.best->lower_bound},
                 {"by", entry.best->by},
                 {"status", entry.best->status},
                 {"proof", entry.best->proof},
                 {"version", entry.best->version}});
  }
  return json;
}

/// A shorter table than an optimum, or a bound above a makespan, contradicts the entry.
ArchiveOutcome outcome_of(const std::optional<BestKnown>& known, Ticks found, Ticks lower_bound) {
  if (!known) return ArchiveOutcome::is_new;
  if (lower_bound > known->makespan || found < known->lower_bound) {
    return ArchiveOutcome::contradicted;
  }
  if (found < known->makespan) return ArchiveOutcome::better;
  return found == known->makespan ? ArchiveOutcome::holds : ArchiveOutcome::not_reached;
}

/// Whether an entry that holds now has a higher bound.
bool proves_more(const BestKnown& known, const search::Optimum& optimum) {
  return known.status != "optimal" && optimum.lower_bound.ticks > known.lower_bound;
}

void check(ArchiveCheck& check, std::size_t index, const ArchiveRequest& request) {
  ArchiveEntry& entry = check.archive[index];
  OptimizationRequest search = request.search;
  search.problem = entry.problem;
  search.slot_model = entry.slot_model;
  TimeRequest time = request.time;
  time.given.model = entry.model;
  search.model = time_model_of(time, entry.problem);
  const Optimization optimization = optimize(search);
  const search::Optimum& optimum = optimization.optimum;
  if (!optimum.best) return;
  check.optimal += optimum.proof == search::ProofKind::none ? 0 : 1;
  const Ticks makespan = optimum.best->makespan;
  const ArchiveOutcome outcome = outcome_of(entry.best, makespan, optimum.lower_bound.ticks);
  check.found.push_back({.entry = index,
                         .outcome = outcome,
                         .makespan = makespan,
                         .known = entry.best ? std::optional(entry.best->makespan) : std::nullopt,
                         .why = {}});
  const bool replaces = outcome == ArchiveOutcome::is_new || outcome == ArchiveOutcome::better ||
                        (outcome == ArchiveOutcome::holds && proves_more(*entry.best, optimum));
  if (!replaces) return;
  entry.best = {.makespan = makespan,
                .lower_bound = optimum.lower_bound.ticks,
                .by = optimum.lower_bound.by,
                .status = optimization.status(),
                .proof = optimization.proof(),
                .version = version()};
}

}  // namespace

const char* ArchiveEntry::model_word() const {
  return slot_model ? kModels[kSlotModel] : model_name(model);
}

std::vector<ArchiveEntry> read_archive(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema(kArchiveSchema);
  root.expect_keys({"schema", "entries"});
  const JsonValue entries = root.at("entries");
  std::vector<ArchiveEntry> archive;
  for (std::size_t index = 0; index < entries.size(); ++index)
    archive.push_back(read_entry(entries.item(index)));
  return archive;
}

std::string write_archive(const std::vector<ArchiveEntry>& archive) {
  std::string text = std::string("{\"schema\": \"") + kArchiveSchema + "\",\n\"entries\": [";
  const char* separator = "\n";
  for (const ArchiveEntry& entry : archive)
    text += std::exchange(separator, ",\n") + entry_json(entry).line();
  return text + "]}\n";
}

const char* outcome_name(ArchiveOutcome outcome) {
  constexpr const char* kNames[] = {"holds",       "new",          "better",
                                    "not_reached", "contradicted", "refused"};
  return kNames[static_cast<int>(outcome)];
}

std::int64_t ArchiveCheck::count(ArchiveOutcome outcome) const {
  return std::ranges::count(found, outcome, &Found::outcome);
}

ArchiveCheck check_archive(std::vector<ArchiveEntry> archive, const ArchiveRequest& request) {
  STAGGER_EXPECTS(request.every >= 1);
  ArchiveCheck result{.archive = std::move(archive), .found = {}};
  const std::size_t entries = result.archive.size();
  std::exception_ptr first_refusal;
  for (std::size_t index = 0; index < entries; index += static_cast<std::size_t>(request.every)) {
    if (request.search.stop && request.search.stop()) break;
    if (request.progress) request.progress(index, entries);
    try {
      check(result, index, request);
    } catch (const Error& error) {
      if (!first_refusal) first_refusal = std::current_exception();
      result.found.push_back(
          {.entry = index, .outcome = ArchiveOutcome::refused, .known = {}, .why = error.what()});
    }
  }
  const bool none = result.count(ArchiveOutcome::refused) == std::ssize(result.found);
  if (first_refusal && none) std::rethrow_exception(first_refusal);
  return result;
}

}  // namespace stagger::workbench
