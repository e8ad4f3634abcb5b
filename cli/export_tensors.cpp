// `export --as LAYOUT`: the mask for other tools, and for FlashAttention-4 a table's write order.

#include "cli/commands.hpp"
#include "cli/export.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/json.hpp"
#include "core/nearest.hpp"
#include "core/version.hpp"
#include "workbench/analysis.hpp"

#include <algorithm>

namespace stagger::cli {
namespace {

const formats::ExportFormat& layout_of(const Options& options) {
  const formats::ExportFormat* layout = formats::find_export_format(options.as);
  if (layout != nullptr) return *layout;
  throw Error(ErrorKind::usage,
              unknown_name("layout", options.as, names_of(formats::export_formats())));
}

void check_options(const Options& options, const formats::ExportFormat& layout) {
  check_standard_output(options);
  reject(given_of(options, "width ascii color"), "is for txt");
  reject(given_of(options, "rounds"), "is for cnf, dzn and lp");
  const std::string why = std::string("means nothing to --as ") + layout.name;
  if (!layout.has_ragged) {
    reject(given_of(options, "ragged"), why + ", which does not tell full from partial tiles");
  }
  if (layout.has_order) {
    if (!options.schedule.empty() || !options.table.empty()) return;
  } else {
    reject(given_of(options, "schedule ranks"), why);
  }
  reject(given_in(options, Group::timing), why);
  reject(given_of(options, "machine kernel dtype head-dim tick-ns ranks"), why);
}

void say(const Options& options, const formats::ExportFormat& layout, formats::Ragged ragged,
         const std::vector<std::string>& notes) {
  if (!options.json) {
    for (const std::string& note : notes)
      complain(options.output + ": " + note);
    return;
  }
  Json json = {{"schema", "stagger.export/1"},
               {"version", version()},
               {"format", layout.name},
               {"what", layout.summary},
               {"notes", notes}};
  if (layout.has_ragged) {
    json["ragged"] = ragged == formats::Ragged::flex ? "flex" : "in-bounds";
  }
  write_stdout(json.line() + "\n");
}

}  // namespace

std::vector<Word> layout_words() {
  std::vector<Word> words;
  for (const formats::ExportFormat& format : formats::export_formats())
    words.push_back({format.name, format.summary});
  return words;
}

int export_tensors(const Options& options) {
  const formats::ExportFormat& layout = layout_of(options);
  check_options(options, layout);
  const formats::Ragged ragged = options.ragged.value_or(layout.ragged);
  std::vector<std::string> notes;
  ExitCode code = kHolds;
  formats::Bundle bundle;
  if (!options.schedule.empty() || (!options.table.empty() && layout.has_order)) {
    const workbench::Analysis analysis =
        workbench::analyze(source_of(options), analysis_options(options));
    code = exit_code(analysis);
    if (analysis.verification.verdict == dag::Verdict::deadlock) {
      complain(analysis.name + ": it hangs, and is not written; see `stagger verify`");
      return code;
    }
    bundle = formats::export_mask(analysis.table.problem, layout, ragged, &analysis.table, notes);
  } else {
    const Problem problem =
        options.table.empty() ? problem_of(options) : read_table(options.table, options).problem;
    bundle = formats::export_mask(problem, layout, ragged, nullptr, notes);
  }
  const std::string path = options.output == "-" ? std::string("-.json") : options.output;
  write_file(options.output, formats::write_bundle(std::move(bundle), path));
  say(options, layout, ragged, notes);
  return code;
}

}  // namespace stagger::cli
