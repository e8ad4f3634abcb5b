// Lists of which one batch or one head is for all: those of one direction, of one class, or counts
// alone.

#include "core/formats/mask_export.hpp"
#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <string>
#include <vector>

namespace stagger::formats {
namespace {

/// The tensor [1, 1, ...] as [batches, heads, ...].
void repeat(Tensor& tensor, std::int64_t batches, std::int64_t heads) {
  const Elements one = tensor.elements;
  tensor.shape[0] = batches;
  tensor.shape[1] = heads;
  for (std::int64_t copy = 1; copy < batches * heads; ++copy)
    tensor.elements.insert(tensor.elements.end(), one.begin(), one.end());
}

Bundle exported(const char* format, const char* mask) {
  std::vector<std::string> notes;
  const ExportFormat& row = *find_export_format(format);
  return export_mask(make_problem(parse_mask(mask), {16, 16}, {2, 2}, 1, 1), row, row.ragged,
                     nullptr, notes);
}

TEST_CASE("one batch or head of a list is for all that others have") {
  test::Random random(29);
  int wider = 0;
  for (int round = 0; round < 200; ++round) {
    const char* format = round % 2 == 0 ? "flex" : "fa4";
    Bundle bundle = exported(format, "sliding:left=5,right=0");
    bool several = false;
    for (NamedTensor& each : bundle.tensors) {
      if (each.tensor.shape.size() < 3) continue;
      const std::int64_t batches = random.chance(2) ? 2 : 1;
      const std::int64_t heads = random.chance(2) ? 3 : 1;
      repeat(each.tensor, batches, heads);
      several = several || batches * heads > 1;
    }
    CAPTURE(format, round);
    const ImportedMask imported = read(bundle);
    REQUIRE(rows_of(imported) == kW8);
    if (format == std::string("fa4")) REQUIRE(says(imported, "are the same tiles"));
    REQUIRE(says(imported, "the same mask for") == several);
    wider += several ? 1 : 0;
  }
  CHECK(wider > 100);
}

TEST_CASE("a list of one head is held against every head of the other direction") {
  for (const std::string format : {"flex", "fa4"}) {
    const std::string prefix = format == "flex" ? "full_kv_" : "forward.full_block_";
    Bundle bundle = exported(format.c_str(), "causal");
    const Bundle other = exported(format.c_str(), "sliding:left=5,right=0");
    // The forward lists have two heads, of which the second is another mask.
    for (NamedTensor& each : bundle.tensors) {
      if (!each.name.starts_with(prefix)) continue;
      repeat(each.tensor, 1, 2);
    }
    CAPTURE(format);
    CHECK(refusal_of(bundle).empty());
    for (NamedTensor& each : bundle.tensors) {
      if (!each.name.starts_with(prefix)) continue;
      const Elements& own = other.at(each.name).elements;
      const std::size_t half = each.tensor.elements.size() / 2;
      const std::size_t width = half / 8;  // of a row of ids, or one count
      const std::size_t narrow = own.size() / 8;
      for (std::size_t row = 0; row < 8; ++row) {
        for (std::size_t place = 0; place < std::min(width, narrow); ++place)
          each.tensor.elements[half + row * width + place] = own[row * narrow + place];
      }
    }
    CHECK(refusal_of(bundle).find("transpose") != std::string::npos);
  }
}

TEST_CASE("lists of other numbers of heads do not fit each other") {
  Bundle bundle = exported("flex", "causal");
  for (NamedTensor& each : bundle.tensors) {
    if (each.name.starts_with("kv_")) repeat(each.tensor, 1, 2);
    if (each.name.starts_with("full_q_")) repeat(each.tensor, 1, 3);
  }
  CHECK(refusal_of(bundle) ==
        "x.npz: full_q_indices is of 1 batch of 3 heads, and others of 1 batch of 2 heads");
  const std::int64_t many = std::int64_t{1} << 14;
  const Bundle wide = bundle_of({{"kv_num_blocks", ints({many, 1, 1}, Elements(1 << 14, 0))},
                                 {"kv_indices", ints({1, many, 1, 1}, Elements(1 << 14, 0))}});
  CHECK(refusal_of(wide).find("masks for 16384 batches of 16384 heads are more than") !=
        std::string::npos);
}

}  // namespace
}  // namespace stagger::formats
