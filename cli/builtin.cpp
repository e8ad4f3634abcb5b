#include "cli/builtin.hpp"

#include "cli/files.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/nearest.hpp"
#include "workbench/builtin_machines.hpp"

#include <span>

namespace stagger::cli {
namespace {

bool is_path(const std::string& name) {
  return name == "-" || name.find_first_of("./") != std::string::npos;
}

/// The text behind a name; `kind` is what it is of.
std::string text_of(const char* kind, const std::string& name,
                    std::span<const block::BuiltinFile> builtin) {
  if (const char* text = block::find_builtin(builtin, name)) return text;
  if (is_path(name)) return read_file(name);
  throw Error(ErrorKind::usage,
              unknown_name(kind, name, names_of(builtin)) + " (or a file of one)");
}

}  // namespace

block::Transformer find_model(const std::string& name) {
  return block::read_transformer(text_of("model", name, block::builtin_models()), name);
}

block::Calibration find_calibration(const std::string& name) {
  return block::read_calibration(text_of("calibration", name, block::builtin_calibrations()), name);
}

Machine find_machine(const std::string& name) {
  return read_machine_json(text_of("machine", name, workbench::builtin_machines()), name);
}

}  // namespace stagger::cli
