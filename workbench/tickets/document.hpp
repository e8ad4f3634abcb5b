#pragma once

#include "core/json_place.hpp"
#include "core/problem.hpp"
#include "workbench/tickets/block_lists.hpp"
#include "workbench/tickets/rules.hpp"
#include "workbench/tickets/tensors.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

/// What a file was read as.
enum class Kind {
  table,        ///< a Stagger table
  tickets,      ///< stagger.tickets/1
  lock_values,  ///< an array of lock values
  fa4,          ///< FlashAttention-4's block lists
};
inline constexpr const char* kKindNames[] = {"table", "tickets", "lock-values", "fa4"};
[[nodiscard]] constexpr const char* kind_name(Kind kind) {
  return kKindNames[static_cast<int>(kind)];
}

/// The place of a finding: which value of the file, and where that is in its text.
struct At {
  std::string pointer;  ///< a JSON pointer; of a CSV file, as though it were JSON
  TextPlace place = {};
  TextPlace end = {};       ///< behind it; of a whole line none
  std::string tensor = {};  ///< of a file of tensors: `dq_write_order[0,0,3,1]`

  /// As people are told it.
  [[nodiscard]] const std::string& shown() const { return tensor.empty() ? pointer : tensor; }
};

/// A file as tickets, with what is known beside.
struct Document {
  Kind kind = Kind::tickets;
  bool json = true;
  Tickets tickets = {};
  Origin origin = Origin::given;
  std::optional<Problem> problem = {};  ///< of a table
  Findings found = Findings();          ///< what is wrong besides the tickets
  /// Where a step is, by step: of a JSON table its place in the lane, of a CSV file its text.
  std::vector<std::int64_t> slots = {};
  std::vector<TextRange> places = {};
  BlockLists lists = {};  ///< of fa4, with each step's entry
  std::vector<ListEntry> entries = {};
  std::optional<TensorText> tensors = {};  ///< of a file of tensors: what was read
};

/// Reads a table, tickets or lock values, as JSON, CSV or tensors, by content. Throws
/// Error{invalid_input} with `file`, line and column of what is malformed, Error{limit} above
/// core/limits.hpp. Of what is found of a rule at most `limit` are kept.
[[nodiscard]] Document read_document(std::string_view text, const std::string& file,
                                     std::int64_t limit = 20);

/// Where findings are, each in its turn; `text` is what the document was read from.
[[nodiscard]] std::vector<At> locate(const Document& document, std::string_view text,
                                     std::span<const Finding> findings);

}  // namespace stagger::tickets
