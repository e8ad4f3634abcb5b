#pragma once

#include "core/head_grids.hpp"
#include "core/table.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::formats {

/// Q tiles of each row, in the order of its chain, and their ranks: rows are (head, KV tile).
struct OrderedList {
  std::vector<std::vector<std::int64_t>> ids = {};
  std::vector<std::vector<std::int64_t>> ranks = {};
};

/// A table as FlashAttention-4's backward pass is told it: a chain for each (head, KV tile), its
/// partial tiles and then its full ones, launched by KV tile upwards, or downwards (spt).
struct WriteOrder {
  std::int32_t heads = 1;  ///< 1 where all are alike
  bool spt = false;
  OrderedList partial = {};
  OrderedList full = {};
  std::vector<std::string> notes = {};  ///< what the launch has to hold
};

/// Throws Error{unsupported}, with the condition that fails and its place, if FlashAttention-4
/// cannot run the table: chains have one head each, are whole, take partial tiles before full ones,
/// and are launched by KV tile in one direction; the ranks of a dQ tile are 0 to k - 1. `grids` say
/// which tiles are partial.
[[nodiscard]] WriteOrder write_order_of(const Table& table, const HeadGrids& grids);

}  // namespace stagger::formats
