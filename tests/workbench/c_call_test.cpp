// The tensors of a call, one thing wrong with one of them at a time: what is said of each is kept
// in tests/golden/calls.txt, and what is let pass overlaps nowhere.

#include "workbench/c_call.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "workbench/c_guard.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace stagger::workbench::c {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kDim = 64;

/// Three query heads of one KV head each group of three: 5 queries, 7 keys.
BackwardPlan small_plan() {
  PlanRequest request{.mask = make_mask("full"), .lengths = {5, 7}};
  request.batch = kBatch;
  request.heads_q = 6;
  request.heads_kv = 2;
  request.head_dim = kDim;
  request.sms = 4;
  request.schedule = "ascending";
  return std::get<BackwardPlan>(plan_backward(request));
}

using Tensor = stagger_tensor stagger_call::*;
struct Named {
  const char* name;
  Tensor tensor;
  std::int64_t rows;
  std::int64_t heads;
  bool written;
};
constexpr Named kTensors[] = {
    {"q", &stagger_call::q, 5, 6, false},         {"k", &stagger_call::k, 7, 2, false},
    {"v", &stagger_call::v, 7, 2, false},         {"out", &stagger_call::out, 5, 6, false},
    {"d_out", &stagger_call::d_out, 5, 6, false}, {"dq", &stagger_call::dq, 5, 6, true},
    {"dk", &stagger_call::dk, 7, 2, true},        {"dv", &stagger_call::dv, 7, 2, true},
    {"lse", &stagger_call::lse, 5, 6, false}};

bool is_lse(const Named& named) {
  return named.tensor == &stagger_call::lse;
}
std::int64_t bytes_of(const Named& named, std::int64_t element) {
  return is_lse(named) ? 4 : element;
}
std::int64_t extent_of(const Named& named, std::int64_t element) {
  return kBatch * named.rows * named.heads * (is_lse(named) ? 1 : kDim) * bytes_of(named, element);
}

/// Contiguous tensors far from each other, at addresses that nobody reads.
stagger_call sound_call() {
  stagger_call call{};
  call.size = sizeof call;
  std::uintptr_t address = 0x10000000;
  for (const Named& named : kTensors) {
    const std::int64_t dim = is_lse(named) ? 1 : kDim;
    stagger_tensor& tensor = call.*named.tensor;
    tensor.data = reinterpret_cast<void*>(address);
    tensor.stride[0] = named.rows * named.heads * dim;
    tensor.stride[1] = named.heads * dim;
    tensor.stride[2] = dim;
    address += 0x1000000;
  }
  return call;
}

std::string checked(const BackwardPlan& plan, const stagger_call& call, std::int64_t element) {
  try {
    check_tensors(plan, call, element);
    return "taken";
  } catch (const Failure& failure) {
    return std::to_string(static_cast<int>(failure.code())) + ": " + failure.what();
  }
}

void* moved(void* data, std::int64_t bytes) {
  return static_cast<char*>(data) + bytes;
}

TEST_CASE("what is said of a tensor with one thing wrong is as kept") {
  const BackwardPlan plan = small_plan();
  std::ostringstream text;
  for (const std::int64_t element : {2, 4}) {
    REQUIRE(checked(plan, sound_call(), element) == "taken");
    for (const Named& named : kTensors) {
      const auto add = [&](const std::string& what, auto change) {
        stagger_call call = sound_call();
        change(call.*named.tensor);
        text << element << " " << named.name << " " << what << ": " << checked(plan, call, element)
             << "\n";
      };
      add("NULL", [](stagger_tensor& tensor) { tensor.data = nullptr; });
      for (const std::int64_t bytes : {1, 2, 4, 8, 16}) {
        add(std::to_string(bytes) + " on",
            [&](stagger_tensor& tensor) { tensor.data = moved(tensor.data, bytes); });
      }
      for (std::size_t dimension = 0; dimension < 3; ++dimension) {
        const std::int64_t most = std::int64_t{1} << 40;
        for (const std::int64_t stride :
             {std::int64_t{-8}, std::int64_t{0}, std::int64_t{1}, std::int64_t{900}, most / 4 - 8,
              most / 4, most / 2 - 8, most / 2}) {
          add("stride " + std::to_string(dimension) + " " + std::to_string(stride),
              [&](stagger_tensor& tensor) { tensor.stride[dimension] = stride; });
        }
      }
    }
  }
  CHECK(test::golden_difference("calls.txt", text.str()) == "");
}

TEST_CASE("strides reach no farther than addresses do") {
  constexpr std::int64_t kHeads = 600;
  PlanRequest request{.mask = make_mask("full"), .lengths = {5, 7}};
  request.heads_q = request.heads_kv = kHeads;
  request.head_dim = kDim;
  request.sms = 4;
  request.schedule = "ascending";
  const BackwardPlan plan = std::get<BackwardPlan>(plan_backward(request));
  const auto said = [&](std::int64_t stride) {
    stagger_call call{};
    call.size = sizeof call;
    std::uintptr_t address = std::uintptr_t{1} << 50;
    for (const Named& named : kTensors) {
      const std::int64_t dim = is_lse(named) ? 1 : kDim;
      stagger_tensor& tensor = call.*named.tensor;
      tensor.data = reinterpret_cast<void*>(address);
      tensor.stride[1] = kHeads * dim;
      tensor.stride[2] = dim;
      address += 0x10000000;
    }
    call.q.stride[2] = stride;
    return checked(plan, call, 2);
  };
  // 600 heads of 2-byte elements: 2^48 bytes are 2^47 elements.
  const std::int64_t most = (std::int64_t{1} << 47) / kHeads / 8 * 8;
  CHECK(said(most).find("farther") == std::string::npos);
  CHECK(said(most + 8).find("q: the head stride is " + std::to_string(most + 8) +
                            ", by which it reaches farther than addresses do") !=
        std::string::npos);
}

TEST_CASE("a gradient may touch another tensor's ends and nothing of it") {
  const BackwardPlan plan = small_plan();
  for (const std::int64_t element : {2, 4}) {
    for (const Named& written : kTensors) {
      if (!written.written) continue;
      for (const Named& other : kTensors) {
        if (written.tensor == other.tensor) continue;
        stagger_call call = sound_call();
        void* const there = (call.*other.tensor).data;
        const auto at_distance = [&](std::int64_t bytes) {
          (call.*written.tensor).data = moved(there, bytes);
          return checked(plan, call, element);
        };
        const std::int64_t own = extent_of(written, element);
        const std::int64_t others = extent_of(other, element);
        CAPTURE(element, written.name, other.name);
        CHECK(at_distance(others) == "taken");
        CHECK(at_distance(-own) == "taken");
        CHECK(at_distance(others - 16).find(" overlaps ") != std::string::npos);
        CHECK(at_distance(16 - own).find(" overlaps ") != std::string::npos);
        CHECK(at_distance(0).find(" overlaps ") != std::string::npos);
      }
    }
  }
}

TEST_CASE("tensors of keys have as many rows and heads as there are keys and KV heads") {
  const BackwardPlan plan = small_plan();
  for (const Named& other : kTensors) {
    if (other.rows != 7) continue;
    stagger_call call = sound_call();
    stagger_tensor& padded = call.*other.tensor;
    padded.stride[1] = 4 * kDim;
    padded.stride[0] = 7 * padded.stride[1];
    // The last element's end, from its first.
    const std::int64_t extent = padded.stride[0] + 6 * padded.stride[1] + 2 * kDim;
    CAPTURE(other.name, extent);
    call.dq.data = moved(padded.data, 2 * extent);
    CHECK(checked(plan, call, 2) == "taken");
    call.dq.data = moved(padded.data, 2 * extent - 16);
    CHECK(checked(plan, call, 2).find(" overlaps ") != std::string::npos);
  }
}

TEST_CASE("tensors that are only read may be one, and lie in each other") {
  const BackwardPlan plan = small_plan();
  int pairs = 0;
  for (const std::int64_t element : {2, 4}) {
    for (const Named& one : kTensors) {
      for (const Named& other : kTensors) {
        if (one.written || other.written || one.tensor == other.tensor) continue;
        CAPTURE(element, one.name, other.name);
        for (const std::int64_t bytes : {0, 64}) {
          stagger_call call = sound_call();
          (call.*one.tensor).data = moved((call.*other.tensor).data, bytes);
          CHECK(checked(plan, call, element) == "taken");
        }
        ++pairs;
      }
    }
  }
  CHECK(pairs == 2 * 6 * 5);
}

/// The byte addresses of a tensor's elements, by their first bytes.
std::set<std::uintptr_t> elements_of(const Named& named, const stagger_call& call) {
  std::set<std::uintptr_t> all;
  const stagger_tensor& tensor = call.*named.tensor;
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (std::int64_t row = 0; row < named.rows; ++row) {
      for (std::int64_t head = 0; head < named.heads; ++head) {
        const std::int64_t first =
            batch * tensor.stride[0] + row * tensor.stride[1] + head * tensor.stride[2];
        for (std::int64_t column = 0; column < kDim; column += 8)
          all.insert(reinterpret_cast<std::uintptr_t>(tensor.data) +
                     static_cast<std::uintptr_t>(2 * (first + column)));
      }
    }
  }
  return all;
}

TEST_CASE("slices of one packed tensor are taken where no element is in two of them") {
  const BackwardPlan plan = small_plan();
  test::Random random(test::seed(51));
  std::int64_t taken = 0;
  std::int64_t refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    stagger_call call = sound_call();
    // dk and dv of 2 heads in rows of some heads' width, batches of some rows.
    const std::int64_t row = kDim * random.between(2, 6);
    const std::int64_t batch = row * random.between(7, 9);
    void* const base = call.dk.data;
    for (stagger_tensor* tensor : {&call.dk, &call.dv}) {
      tensor->stride[1] = row;
      tensor->stride[0] = batch;
    }
    if (random.chance(8)) call.dv.stride[1] = row + 8;
    if (random.chance(8)) call.dv.stride[0] = batch + row;
    call.dv.data =
        moved(base, 2 * (random.between(-3, 3) * row + random.between(0, 12) * kDim / 2));
    std::set<std::uintptr_t> both = elements_of(kTensors[6], call);
    const std::set<std::uintptr_t> other = elements_of(kTensors[7], call);
    bool overlaps = false;
    for (const std::uintptr_t address : other)
      overlaps = overlaps || both.contains(address);
    const std::string said = checked(plan, call, 2);
    CAPTURE(round, said, row, batch);
    if (overlaps) REQUIRE(said.find("dk overlaps dv") != std::string::npos);
    ++(said == "taken" ? taken : refused);
    // Of one row, one batch and one distance apart, nothing that is no overlap is refused.
    const bool packed = call.dv.stride[0] == batch && call.dv.stride[1] == row &&
                        call.dv.data >= base &&
                        static_cast<char*>(call.dv.data) - static_cast<char*>(base) < 2 * row;
    if (packed && !overlaps) REQUIRE(said == "taken");
  }
  CHECK(taken > 100);
  CHECK(refused > 100);
}

TEST_CASE("slices of a packed tensor have its batches too, if there are several") {
  const BackwardPlan plan = small_plan();
  stagger_call call = sound_call();
  for (stagger_tensor* tensor : {&call.dk, &call.dv}) {
    tensor->stride[1] = 4 * kDim;
    tensor->stride[0] = 7 * 4 * kDim;
  }
  call.dv.data = moved(call.dk.data, 2 * 2 * kDim);  // heads 2 and 3 of 4
  CHECK(checked(plan, call, 2) == "taken");
  call.dv.stride[0] += 2 * kDim;  // in its second batch they are heads 0 and 1 of the next row
  CHECK(checked(plan, call, 2).find("dk overlaps dv") != std::string::npos);
  // A batch that is no whole number of rows on begins within the other's heads.
  for (stagger_tensor* tensor : {&call.dk, &call.dv})
    tensor->stride[0] = 7 * 4 * kDim + 2 * kDim;
  CHECK(checked(plan, call, 2).find("dk overlaps dv") != std::string::npos);
}

TEST_CASE("a tensor without elements overlaps nothing, whatever its strides") {
  BackwardPlan plan = small_plan();
  plan.table.problem.lengths.q = 0;
  stagger_call call = sound_call();
  for (stagger_tensor* tensor : {&call.q, &call.out, &call.d_out, &call.dq, &call.lse})
    *tensor = {.data = call.dk.data, .stride = {0, 0, 0}};
  CHECK(checked(plan, call, 2) == "taken");
}

TEST_CASE("a batch of one has no stride among batches") {
  PlanRequest request{.mask = make_mask("full"), .lengths = {5, 7}};
  request.heads_q = 6;
  request.heads_kv = 2;
  request.head_dim = kDim;
  request.sms = 4;
  request.schedule = "ascending";
  const BackwardPlan plan = std::get<BackwardPlan>(plan_backward(request));
  for (const std::int64_t stride : {0, 8, 1'000'000}) {
    CAPTURE(stride);
    stagger_call call = sound_call();
    call.dq.stride[0] = stride;
    CHECK(checked(plan, call, 2) == "taken");
    for (stagger_tensor* tensor : {&call.dk, &call.dv})
      tensor->stride[1] = 4 * kDim;
    call.dv.data = moved(call.dk.data, 2 * 2 * kDim);  // heads 2 and 3 of 4
    call.dv.stride[0] = stride;
    CHECK(checked(plan, call, 2) == "taken");
  }
}

TEST_CASE("a call's own memory may touch its tensors' ends, and overlaps none that is written") {
  const BackwardPlan plan = small_plan();
  REQUIRE(plan.device.has_value());
  struct Range {
    const char* name;
    std::int64_t bytes;
    bool written;
  };
  const Range memory[] = {{"workspace", plan.device->workspace.bytes, true},
                          {"device_plan", plan.device->layout.bytes, false}};
  std::int64_t overlaps = 0;
  const auto meet = [&](const Range& mine, std::int64_t begin, const Range& other,
                        std::int64_t at) {
    return (mine.written || other.written) && begin < at + other.bytes && at < begin + mine.bytes;
  };
  for (std::size_t moved_one = 0; moved_one < 2; ++moved_one) {
    const Range& mine = memory[moved_one];
    const Range& beside = memory[1 - moved_one];
    const auto place = [&](std::int64_t begin, const Range& other, std::int64_t at,
                           stagger_call call) {
      void* const its[] = {reinterpret_cast<void*>(moved_one == 0 ? begin : 0x20000000),
                           reinterpret_cast<void*>(moved_one == 1 ? begin : 0x20000000)};
      call.workspace = its[0];
      call.device_plan = its[1];
      call.workspace_bytes = static_cast<std::uint64_t>(memory[0].bytes);
      std::string said = "taken";
      try {
        check_memory(plan, call);
      } catch (const Failure& failure) {
        said = failure.what();
      }
      const bool expected = meet(mine, begin, other, at);
      overlaps += expected ? 1 : 0;
      CAPTURE(mine.name, other.name, begin - at, said);
      REQUIRE((said != "taken") == expected);
      if (!expected) return;
      REQUIRE(said.find(" overlaps ") != std::string::npos);
      REQUIRE(said.find(mine.name) != std::string::npos);
      REQUIRE(said.find(other.name) != std::string::npos);
    };
    const stagger_call call = sound_call();
    const auto around = [&](const Range& other, std::int64_t at) {
      constexpr std::int64_t kStep = 256;
      const std::int64_t before = (mine.bytes + kStep - 1) / kStep * kStep;
      const std::int64_t behind = (other.bytes + kStep - 1) / kStep * kStep;
      for (const std::int64_t begin : {at - before - kStep, at - before, at - before + kStep, at,
                                       at + behind - kStep, at + behind, at + behind + kStep})
        place(begin, other, at, call);
    };
    for (const Named& tensor : kTensors) {
      const void* const data = (call.*tensor.tensor).data;
      around({tensor.name, extent_of(tensor, 2), tensor.written},
             static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data)));
    }
    around(beside, 0x20000000);
  }
  CHECK(overlaps > 40);
}

TEST_CASE("workspace, plan, mode and scale are looked at one by one") {
  const BackwardPlan plan = small_plan();
  REQUIRE(plan.device.has_value());
  stagger_call call = sound_call();
  call.workspace = reinterpret_cast<void*>(0x20000000);
  call.device_plan = reinterpret_cast<void*>(0x21000000);
  call.workspace_bytes = static_cast<std::uint64_t>(plan.device->workspace.bytes);
  const auto said = [&](auto change) -> std::string {
    stagger_call changed = call;
    change(changed);
    try {
      check_mode(changed);
      check_memory(plan, changed);
      return "taken";
    } catch (const Failure& failure) {
      return std::to_string(static_cast<int>(failure.code())) + ": " + failure.what();
    }
  };
  const std::string code = std::to_string(static_cast<int>(STAGGER_E_WORKSPACE)) + ": ";
  const std::string bytes = std::to_string(call.workspace_bytes);
  const std::string fewer = std::to_string(call.workspace_bytes - 1);
  CHECK(said([](stagger_call&) {}) == "taken");
  CHECK(said([](stagger_call& each) { ++each.workspace_bytes; }) == "taken");
  CHECK(said([](stagger_call& each) { each.mode = STAGGER_ATOMIC; }) == "taken");
  CHECK(said([](stagger_call& each) { --each.workspace_bytes; }) ==
        code + "the workspace has " + fewer + " bytes; this plan needs " + bytes);
  CHECK(said([](stagger_call& each) { each.workspace = nullptr; }) == code + "workspace is NULL");
  CHECK(said([](stagger_call& each) { each.device_plan = nullptr; }) ==
        code + "device_plan is NULL: stagger_plan_upload() fills it");
  const std::string alignment = std::to_string(static_cast<int>(STAGGER_E_ALIGNMENT)) + ": ";
  CHECK(said([](stagger_call& each) { each.workspace = moved(each.workspace, 128); }) ==
        alignment + "workspace: the address is no multiple of 256 bytes");
  CHECK(said([](stagger_call& each) {
          each.device_plan = static_cast<const char*>(each.device_plan) + 16;
        }) == alignment + "device_plan: the address is no multiple of 256 bytes");
  CHECK(said([](stagger_call& each) { each.mode = 2; }) ==
        std::to_string(static_cast<int>(STAGGER_E_USAGE)) +
            ": mode is 2; it is STAGGER_DETERMINISTIC or STAGGER_ATOMIC");

  CHECK(scale_of(plan, call) == 0.125F);
  for (const float scale : {0.5F, 1e-30F, 2.0F}) {
    call.scale = scale;
    CHECK(scale_of(plan, call) == scale);
  }
  for (const float scale : {-0.5F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    call.scale = scale;
    CHECK_THROWS_AS(scale_of(plan, call), Failure);
  }
}

TEST_CASE("errors have their codes, and the last one its words") {
  CHECK(code_of(ErrorKind::usage) == STAGGER_E_USAGE);
  CHECK(code_of(ErrorKind::invalid_input) == STAGGER_E_INPUT);
  CHECK(code_of(ErrorKind::unsupported) == STAGGER_E_UNSUPPORTED);
  CHECK(code_of(ErrorKind::limit) == STAGGER_E_LIMIT);
  CHECK(code_of(ErrorKind::io) == STAGGER_E_IO);
  CHECK(code_of(ErrorKind::device) == STAGGER_E_DEVICE);
  CHECK(failed(STAGGER_E_LIMIT, "too much") == STAGGER_E_LIMIT);
  CHECK(std::string(last_error()) == "too much");
  const std::string endless(5'000, 'x');
  CHECK(failed(STAGGER_E_USAGE, endless.c_str()) == STAGGER_E_USAGE);
  CHECK(std::string(last_error()) == std::string(2'047, 'x'));
  CHECK_THROWS_AS(expect(nullptr, "x"), Failure);
  CHECK_NOTHROW(expect(&endless, "x"));
  char* const copy = copied("words");
  CHECK(std::string(copy) == "words");
  std::free(copy);
}

}  // namespace
}  // namespace stagger::workbench::c
