#include "workbench/builtin_machines.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/nearest.hpp"

#include <string>

namespace stagger::workbench {

Machine builtin_machine(std::string_view name) {
  const char* const text = block::find_builtin(builtin_machines(), name);
  if (text != nullptr) return read_machine_json(text, std::string(name));
  throw Error(ErrorKind::usage,
              unknown_name("machine", name, names_of(builtin_machines())) + " (or a file of one)");
}

}  // namespace stagger::workbench
