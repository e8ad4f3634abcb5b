#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/formats/mask_import.hpp"
#include "core/json.hpp"
#include "core/mask.hpp"
#include "core/version.hpp"
#include "schedules/schedule.hpp"
#include "workbench/designs/design.hpp"
#include "workbench/invariance.hpp"

#include <fmt/format.h>

namespace stagger::cli {
namespace {

constexpr int kIndent = 14;  ///< columns of what is said of a mask

const char* type_of(const MaskValue& value) {
  constexpr const char* kTypes[] = {"integer", "boolean", "integers", "strings", "masks"};
  return kTypes[value.index()];
}

Json default_of(const MaskKey& key) {
  if (std::holds_alternative<std::vector<Mask>>(key.fallback)) return {};
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<decltype(value), const std::vector<Mask>&>) {
          return Json();
        } else {
          return Json(value);
        }
      },
      key.fallback);
}

Json masks_json() {
  Json rows = Json::array();
  for (const MaskFamily& family : mask_families()) {
    Json keys = Json::array();
    for (const MaskKey& key : family.keys) {
      keys.push_back({{"name", key.name},
                      {"type", type_of(key.fallback)},
                      {"required", key.required},
                      {"default", key.required ? Json() : default_of(key)},
                      {"meaning", key.meaning}});
    }
    rows.push_back({{"kind", family.name},
                    {"summary", family.summary},
                    {"keys", std::move(keys)},
                    {"example", family.example}});
  }
  Json files = Json::array();
  for (const formats::MaskFormat& format : formats::mask_formats())
    files.push_back({{"name", format.name}, {"summary", format.summary}});
  return {{"schema", "stagger.masks/1"},
          {"version", version()},
          {"masks", std::move(rows)},
          {"files", std::move(files)}};
}

Json parameters_json(std::span<const schedules::Parameter> parameters) {
  Json rows = Json::array();
  for (const schedules::Parameter& parameter : parameters) {
    Json row = {{"name", parameter.name},
                {"meaning", parameter.meaning},
                {"default", parameter.fallback},
                {"least", parameter.least},
                {"most", parameter.most}};
    for (const char* word : parameter.words)
      row["words"].push_back(word);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string parameters_text(std::span<const schedules::Parameter> parameters) {
  std::string text;
  for (const schedules::Parameter& parameter : parameters) {
    text += fmt::format("{:<17}:{}={} (to {}): {}\n", "", parameter.name,
                        parameter.spelled(parameter.fallback), parameter.spelled(parameter.most),
                        parameter.meaning);
  }
  return text;
}

/// What a schedule has that not every one has.
std::vector<schedules::Parameter> own_parameters(const schedules::Schedule& schedule) {
  std::vector<schedules::Parameter> own(schedule.parameters.begin(), schedule.parameters.end());
  if (schedule.searches_heads) own.push_back(schedules::kSearchedHeadOrder);
  return own;
}

Json designs_json() {
  Json rows = Json::array();
  for (const designs::Design* design : designs::all()) {
    rows.push_back({{"name", design->name},
                    {"summary", design->summary},
                    {"who", design->who},
                    {"plays_schedule", design->plays_schedule},
                    {"runs", design->runs},
                    {"parameters", parameters_json(design->parameters)}});
  }
  return {{"schema", "stagger.designs/1"}, {"version", version()}, {"designs", std::move(rows)}};
}

std::string designs_text() {
  std::string text;
  for (const designs::Design* design : designs::all()) {
    text += fmt::format("{:<17}{}\n", design->name, design->summary);
    text += fmt::format("{:<17}of: {}\n", "", design->who);
    if (design->plays_schedule) {
      text += fmt::format("{:<17}by --schedule{}\n", "",
                          design->needs_schedule ? "" : ", else by the best that searches nothing");
    }
    text += parameters_text(design->parameters) + "\n";
  }
  return text;
}

/// Where one order is every head's; null for a schedule that searches.
Json invariant_json(const schedules::Schedule& schedule) {
  const std::optional<workbench::SteadySms> steady = workbench::steady_sms_of(schedule);
  if (!steady) return nullptr;
  return {{"kv_tiles", steady->kv_tiles}, {"sms", steady->invariant}, {"of", steady->applies}};
}

Json schedules_json() {
  Json rows = Json::array();
  for (const schedules::Schedule* schedule : schedules::all()) {
    Json formulas = Json::array();
    for (const schedules::Formula& formula : schedule->formulas) {
      formulas.push_back({{"name", formula.name},
                          {"text", formula.text},
                          {"source", formula.source},
                          {"domain", formula.domain}});
    }
    rows.push_back({{"name", schedule->name},
                    {"summary", schedule->summary},
                    {"source", schedule->source},
                    {"preconditions", schedule->preconditions},
                    {"dispatch", dispatch_name(schedule->dispatch)},
                    {"searches", schedule->searches()},
                    {"invariant", invariant_json(*schedule)},
                    {"parameters", parameters_json(own_parameters(*schedule))},
                    {"formulas", std::move(formulas)}});
  }
  return {
      {"schema", "stagger.schedules/1"}, {"version", version()}, {"schedules", std::move(rows)}};
}

std::string invariant_words(const schedules::Schedule& schedule) {
  const std::optional<workbench::SteadySms> steady = workbench::steady_sms_of(schedule);
  if (!steady) return "found by search: its bits move with heads, SMs and durations";
  if (steady->invariant.empty()) return "several: its bits move with heads and SMs";
  if (steady->invariant == steady->applies) return "one for every head, on any SMs that it is for";
  return fmt::format("one for every head on {} of 1 to {} SMs, for {} KV tiles",
                     fmt::join(steady->invariant, ", "), 2 * steady->kv_tiles, steady->kv_tiles);
}

/// The example as words, or as JSON, which may be broken at its spaces, if the line would be too
/// long.
std::string example_of(const MaskFamily& family, int width) {
  const bool quoted = std::string_view(family.example).find(' ') != std::string_view::npos;
  const std::string quote = quoted ? "'" : "";
  std::string words = "--mask " + quote + family.example + quote;
  if (static_cast<int>(words.size()) + kIndent <= width) return words;
  return "--mask '" + mask_json(parse_mask(family.example)).line() + "'";
}

std::string masks_text(int width) {
  std::string text;
  for (const MaskFamily& family : mask_families()) {
    text += fmt::format("{:<14}{}\n", family.name, family.summary);
    for (const MaskKey& key : family.keys) {
      text += fmt::format("{:<14}  {} ({}{}): {}\n", "", key.name, type_of(key.fallback),
                          key.required ? ", required" : ", default " + default_of(key).line(),
                          key.meaning);
    }
    text += fmt::format("{:<{}}{}\n\n", "", kIndent, example_of(family, width));
  }
  text += "Files (--mask-file: .npz, .npy, .safetensors or JSON), told apart by their arrays:\n\n";
  for (const formats::MaskFormat& format : formats::mask_formats())
    text += fmt::format("{:<14}{}\n", format.name, format.summary);
  text += "\n";
  return wrapped(text, width, kIndent + 4) +
         wrapped(
             "Sizes: --n TILES (a tile is one token), or --seq TOKENS with --tile-q, "
             "--tile-kv.\n",
             width, 2);
}

std::string schedules_text() {
  std::string text;
  for (const schedules::Schedule* schedule : schedules::all()) {
    text += fmt::format("{:<17}{}\n", schedule->name, schedule->summary);
    text += fmt::format("{:<17}for: {}\n", "", schedule->preconditions);
    text += fmt::format("{:<17}source: {}; {} dispatch\n", "", schedule->source,
                        dispatch_name(schedule->dispatch));
    text += fmt::format("{:<17}orders: {}\n", "", invariant_words(*schedule));
    text += parameters_text(own_parameters(*schedule));
    for (const schedules::Formula& formula : schedule->formulas) {
      text +=
          fmt::format("{:<17}claims {} = {}: {}\n", "", formula.name, formula.text, formula.domain);
    }
    text += "\n";
  }
  const schedules::Parameter& order = schedules::kHeadOrder;
  return text + fmt::format("the others       :{}={} (or {}): {}, where it has several heads\n",
                            order.name, order.spelled(0), order.spelled(1), order.meaning);
}

int list_command(const Options& options) {
  if (options.json) {
    constexpr Json (*kJson[])() = {masks_json, schedules_json, designs_json};
    write_stdout(kJson[static_cast<int>(options.listed)]().text() + "\n");
    return kHolds;
  }
  const Terminal terminal = terminal_of(options);
  std::string text = options.listed == Topic::masks       ? masks_text(terminal.width)
                     : options.listed == Topic::schedules ? schedules_text()
                                                          : designs_text();
  if (options.listed != Topic::masks) text = wrapped(text, terminal.width, 19);
  write_text(text, terminal);
  return kHolds;
}

}  // namespace

extern const Command kList;
const Command kList{
    .name = "list",
    .summary = "What is built in, with sources and preconditions",
    .examples =
        "  stagger list schedules\n"
        "  stagger list masks --json\n"
        "  stagger list designs\n",
    .run = list_command,
};

}  // namespace stagger::cli
