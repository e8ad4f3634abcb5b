#include "core/version.hpp"

namespace stagger {

const char* version() {
  return STAGGER_VERSION;
}

}  // namespace stagger
