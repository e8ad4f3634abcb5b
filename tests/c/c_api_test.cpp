#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "schedules/schedule.hpp"
#include "tests/c/c_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "workbench/stagger.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace stagger {
namespace {

using test::info_of;
using test::plan_of;
using test::PlanPointer;
using test::problem_of;

/// The code that a changed problem is refused with.
template <class Change>
std::int32_t refusal(Change change) {
  stagger_problem problem = problem_of("causal", "spt");
  change(problem);
  stagger_plan* plan = nullptr;
  const std::int32_t code = stagger_plan_create(&problem, &plan);
  REQUIRE(plan == nullptr);
  return code;
}

TEST_CASE("c: the bytes of a plan and of its workspace are those of the interface's page") {
  stagger_problem problem = problem_of("causal", "spt");
  problem.batch = 4;
  problem.heads_q = problem.heads_kv = 32;
  problem.head_dim = 128;
  problem.sms = 132;
  problem.tile_q = 64;
  problem.seq_q = problem.seq_kv = 4096;
  const stagger_plan_info info = info_of(plan_of(problem));
  CHECK(info.tasks == 135'168);
  CHECK(info.tile_kv == 128);
  const std::uint64_t lanes = static_cast<std::uint64_t>(info.lanes);
  const std::uint64_t masked = 2 * 32;  // tiles of one head on the diagonal
  const auto aligned = [](std::uint64_t bytes) { return (bytes + 255) / 256 * 256; };
  CHECK(info.device_bytes == aligned(24 * 135'168) + aligned(8 * (lanes + 1)) +
                                 aligned(2 * masked * 128) + aligned(4 * 64) + aligned(32));
  CHECK(info.workspace_bytes == 4ULL * 128 * 4096 * 128 + 8ULL * 128 * 4096 + 4 * 128 * 64 + 256);
  problem.heads_kv = 8;
  for (const std::int32_t span : {1, 2, 4}) {
    CAPTURE(span);
    problem.span = span;
    const stagger_plan_info shared = info_of(plan_of(problem));
    CHECK(shared.span == span);
    // dK and dV of every part, in 16 bits; a KV head's only part needs none.
    const std::uint64_t parts = span == 4 ? 0 : 128 / static_cast<std::uint64_t>(span);
    CHECK(shared.workspace_bytes == info.workspace_bytes + 2 * 2ULL * parts * 4096 * 128);
    CHECK(shared.tasks == info.tasks);
  }
}

TEST_CASE("c: a machine is a built-in name, JSON or a file, and a name that is none lists those") {
  const auto predicted = [](const char* machine) {
    stagger_problem problem = problem_of("causal", "spt");
    problem.head_dim = 128;
    problem.machine = machine;
    return info_of(plan_of(problem)).predicted_ns;
  };
  CHECK(predicted(nullptr) > 0);
  CHECK(predicted("h200") == predicted(nullptr));
  CHECK(predicted("h100") != predicted("h200"));
  CHECK(predicted("@" STAGGER_SOURCE_DIR "/configs/machines/h100.json") == predicted("h100"));
  const auto refused = [](const char* machine) {
    return refusal([&](stagger_problem& each) { each.machine = machine; });
  };
  for (const char* name : {"h20", "", " ", "h200.json", "./h200"}) {
    CAPTURE(name);
    CHECK(refused(name) == STAGGER_E_USAGE);
    CHECK(std::string(stagger_last_error()).find("known: h100, h200, h800") != std::string::npos);
  }
  for (const char* text : {"{", " {\"schema\": \"stagger.machine/1\"}", "{}"}) {
    CAPTURE(text);
    CHECK(refused(text) == STAGGER_E_INPUT);
  }
  CHECK(refused("@/nowhere.json") == STAGGER_E_IO);
  CHECK(refused("@h200") == STAGGER_E_IO);
}

TEST_CASE("c: the span is chosen, or the caller's, and changes the order") {
  stagger_problem problem = problem_of("causal", "descending");
  problem.heads_q = 8;
  problem.heads_kv = 2;
  std::vector<std::uint64_t> digests;
  for (const std::int32_t span : {1, 2, 4}) {
    problem.span = span;
    digests.push_back(info_of(plan_of(problem)).order_digest);
  }
  std::sort(digests.begin(), digests.end());
  CHECK(std::unique(digests.begin(), digests.end()) == digests.end());
  problem.span = 0;
  const stagger_plan_info chosen = info_of(plan_of(problem));
  const Problem same =
      make_problem(make_mask("causal"), {300, 300}, {chosen.tile_q, chosen.tile_kv}, 16, 8,
                   {.heads_kv = 4, .span = chosen.span});
  CHECK(chosen.order_digest == order_digest(schedules::build(schedules::select("descending"), same),
                                            STAGGER_NUMERICS, 64));
  for (const std::int32_t span : {-1, 3, 8})
    CHECK(refusal([&](stagger_problem& each) {
            each.heads_q = 8;
            each.span = span;
          }) == STAGGER_E_USAGE);
  CHECK(std::string(stagger_last_error()) ==
        "span must divide the 4 heads of a KV head; 8 does not");
}

TEST_CASE("c: a plan's table is the schedule's, and its digests say so") {
  const PlanPointer plan = plan_of(problem_of("causal", "spt"));
  const stagger_plan_info info = info_of(plan);
  CHECK(std::string(info.schedule) == "spt");
  CHECK(std::string(info.mask) == "causal");
  CHECK(info.resident_needed == 1);
  CHECK(info.invariant == 1);
  CHECK(info.predicted_ns > 0);
  const Problem problem = make_problem(make_mask("causal"), {300, 300}, {info.tile_q, info.tile_kv},
                                       8, 8, {.heads_kv = 4, .span = info.span});
  const Table table = schedules::build(schedules::select("spt"), problem);
  CHECK(info.order_digest == order_digest(table, STAGGER_NUMERICS, 64));
  std::vector<std::int32_t> slots(4 * static_cast<std::size_t>(info.tasks));
  std::vector<std::int64_t> lane_begin(static_cast<std::size_t>(info.lanes) + 1);
  REQUIRE(stagger_plan_table(plan.get(), slots.data(), lane_begin.data()) == STAGGER_OK);
  REQUIRE(std::ssize(table.slots) == info.tasks);
  for (std::int64_t index = 0; index < info.tasks; ++index) {
    const Slot& slot = table.slots[index];
    const std::int32_t* const found = &slots[4 * static_cast<std::size_t>(index)];
    REQUIRE(slot.task == Task{Head{found[0]}, KvTile{found[1]}, QTile{found[2]}});
    REQUIRE(slot.rank == found[3]);
  }
  CHECK(std::equal(lane_begin.begin(), lane_begin.end(), table.lane_begin.begin()));
}

TEST_CASE("c: a plan's part of the profile makes its table again by any other profile") {
  const auto asked = [] {
    stagger_problem problem = problem_of("causal", "auto");
    problem.batch = 1;
    problem.heads_q = 32;
    problem.heads_kv = 8;
    problem.seq_q = problem.seq_kv = 8192;
    problem.head_dim = 128;
    problem.dtype = STAGGER_BF16;
    problem.tile_q = problem.tile_kv = 0;
    problem.sms = 132;
    return problem;
  };
  const PlanPointer plan = plan_of(asked());
  const stagger_plan_info info = info_of(plan);
  REQUIRE(std::string(info.schedule).find("windowed:") == 0);
  char* text = nullptr;
  REQUIRE(stagger_plan_machine(plan.get(), &text) == STAGGER_OK);
  const std::string part(text);
  stagger_free(text);
  CHECK(read_machine_json(part, "part").kernels.size() == 1);
  stagger_problem again = asked();
  again.schedule = info.schedule;
  again.tile_q = info.tile_q;
  again.span = info.span;
  Machine slower = read_machine_json(part, "part");
  slower.kernels.front().reduce.value *= 2;
  const std::string other = write_machine_json(slower);
  again.machine = other.c_str();
  CHECK(info_of(plan_of(again)).order_digest != info.order_digest);
  again.machine = part.c_str();
  CHECK(info_of(plan_of(again)).order_digest == info.order_digest);
  CHECK(stagger_plan_machine(plan.get(), nullptr) == STAGGER_E_USAGE);
}

TEST_CASE("c: a table goes through its text, and a broken one is refused by what is wrong") {
  const PlanPointer plan = plan_of(problem_of("sliding:left=100,right=0", "lpt-descending"));
  char* text = nullptr;
  REQUIRE(stagger_plan_json(plan.get(), &text) == STAGGER_OK);
  std::string table(text);
  stagger_free(text);
  stagger_problem again = problem_of("sliding:left=100,right=0", nullptr);
  again.table = table.c_str();
  again.tile_q = 0;
  CHECK(info_of(plan_of(again)).order_digest == info_of(plan).order_digest);
  CHECK(stagger_plan_json(nullptr, &text) == STAGGER_E_USAGE);
  again.seq_kv = 301;
  stagger_plan* none = nullptr;
  CHECK(stagger_plan_create(&again, &none) == STAGGER_E_USAGE);
  CHECK(std::string(stagger_last_error()).find("the table is for") == 0);
  // One lane has the second of a tile's additions before the first.
  Table hangs = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {64, 256}, {64, 128}, 1, 1));
  std::swap(hangs.slots[0].rank, hangs.slots[1].rank);
  const std::string hanging = write_table_json(hangs);
  stagger_problem small = problem_of("full", nullptr);
  small.batch = small.heads_q = small.heads_kv = 1;
  small.seq_q = 64;
  small.seq_kv = 256;
  small.table = hanging.c_str();
  CHECK(stagger_plan_create(&small, &none) == STAGGER_E_DEADLOCK);
  small.flags = STAGGER_NO_VERIFY;  // the caller knows, and it ends by its timeout
  CHECK(info_of(plan_of(small)).order_digest == 0);
  small.flags = 0;
  hangs.slots[1].rank = 7;
  const std::string beyond = write_table_json(hangs);
  small.table = beyond.c_str();
  CHECK(stagger_plan_create(&small, &none) != STAGGER_OK);
}

TEST_CASE("c: the name of a table is cut between characters") {
  for (const std::size_t letters : {0, 1, 2}) {
    Table table = schedules::build(schedules::select("ascending"),
                                   make_problem(make_mask("full"), {64, 256}, {64, 128}, 1, 1));
    table.name = std::string(letters, 'x');
    for (int index = 0; index < 60; ++index)
      table.name += "\u20ac";  // three bytes each
    const std::string text = write_table_json(table);
    stagger_problem problem = problem_of("full", nullptr);
    problem.batch = problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = 64;
    problem.seq_kv = 256;
    problem.table = text.c_str();
    const std::string said = info_of(plan_of(problem)).schedule;
    CHECK(said.size() > 30);
    CHECK((said.size() - letters) % 3 == 0);
    CHECK(table.name.starts_with(said));
  }
}

TEST_CASE("c: what makes no sense has a code and a sentence") {
  CHECK(refusal([](stagger_problem& each) { each.size = 0; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.heads_kv = 3; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.batch = 0; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.dtype = 9; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.flags = 64; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.schedule = "none"; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.launch = 7; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.mask = "causal:x=1"; }) == STAGGER_E_INPUT);
  CHECK(refusal([](stagger_problem& each) { each.mask = "{"; }) == STAGGER_E_INPUT);
  CHECK(refusal([](stagger_problem& each) { each.mask = "@/none/such"; }) == STAGGER_E_IO);
  CHECK(refusal([](stagger_problem& each) { each.table = "{}"; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) {
          each.schedule = "shift";  // of full masks
        }) == STAGGER_E_UNSUPPORTED);
  CHECK(refusal([](stagger_problem& each) { each.heads_q = each.heads_kv = 1 << 24; }) ==
        STAGGER_E_LIMIT);
  CHECK(std::strlen(stagger_last_error()) > 10);
  CHECK(stagger_plan_create(nullptr, nullptr) == STAGGER_E_USAGE);
  stagger_problem of_device = problem_of("causal", "spt");
  of_device.sms = 0;
  stagger_info info{};
  info.size = sizeof info;
  REQUIRE(stagger_query(&info) == STAGGER_OK);
  if (info.device < 0) {
    stagger_plan* none = nullptr;
    CHECK(stagger_plan_create(&of_device, &none) == STAGGER_E_NO_DEVICE);
    CHECK(std::strlen(info.why_not) > 5);
    CHECK(info.usable == 0);
  }
}

TEST_CASE("c: files that are none, and numbers that no problem has, are refused in words") {
  const auto says = [](const char* words) {
    CAPTURE(stagger_last_error());
    CHECK(std::string(stagger_last_error()).find(words) != std::string::npos);
  };
  const auto of_mask = [](const char* mask) {
    return refusal([&](stagger_problem& each) { each.mask = mask; });
  };
  CHECK(of_mask("@") == STAGGER_E_USAGE);
  says("behind an @");
  CHECK(of_mask("@/") == STAGGER_E_IO);
  says("is a directory");
  CHECK(of_mask("@/dev/zero") == STAGGER_E_LIMIT);  // no end, and no size
  says("larger than 256 MiB");
  CHECK(of_mask("@/dev/null") == STAGGER_E_INPUT);
  for (const std::int32_t number : {-1, -64}) {
    CAPTURE(number);
    CHECK(refusal([&](stagger_problem& each) { each.tile_q = number; }) == STAGGER_E_USAGE);
    says("negative");
    CHECK(refusal([&](stagger_problem& each) { each.tile_kv = number; }) == STAGGER_E_USAGE);
    CHECK(refusal([&](stagger_problem& each) { each.head_dim = number + 1; }) == STAGGER_E_USAGE);
    says("head_dim must be 1 to 512");
  }
  CHECK(refusal([](stagger_problem& each) { each.head_dim = 513; }) == STAGGER_E_USAGE);
  says("head_dim must be 1 to 512");
  for (const char* name : {"auto:x", "auto:search:x", "automatic"}) {
    CHECK(refusal([&](stagger_problem& each) { each.schedule = name; }) == STAGGER_E_USAGE);
    says((std::string("unknown schedule '") + name + "'; it is auto, auto:search or one").c_str());
  }
}

TEST_CASE("c: a table says for how many SMs it is") {
  stagger_problem problem = problem_of("causal", "spt");
  const PlanPointer made = plan_of(problem);
  char* text = nullptr;
  REQUIRE(stagger_plan_json(made.get(), &text) == STAGGER_OK);
  const std::string json = text;
  stagger_free(text);
  problem.schedule = nullptr;
  problem.table = json.c_str();
  for (const std::int32_t sms : {0, problem.sms, 132}) {
    stagger_problem each = problem;
    each.sms = sms;
    const PlanPointer plan = plan_of(each);  // without a device too
    CHECK(info_of(plan).table_digest == info_of(made).table_digest);
  }
}

TEST_CASE("c: nothing is no plan, call or place for an answer") {
  const PlanPointer plan = plan_of(problem_of("causal", "spt"));
  stagger_call call{};
  call.size = sizeof call;
  CHECK(stagger_query(nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_create(nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_describe(nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_describe(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_table(nullptr, nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_table(plan.get(), nullptr, nullptr) == STAGGER_OK);
  CHECK(stagger_plan_json(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_upload(nullptr, nullptr, 0, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_upload(plan.get(), nullptr, 1 << 30, nullptr) == STAGGER_E_WORKSPACE);
  CHECK(std::string(stagger_last_error()) == "device_memory is NULL");
  CHECK(stagger_backward(nullptr, &call) == STAGGER_E_USAGE);
  CHECK(stagger_backward(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_backward_host(nullptr, &call, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  CHECK(stagger_backward_host(plan.get(), nullptr, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  call.mode = 2;
  CHECK(stagger_backward_host(plan.get(), &call, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  call.mode = STAGGER_ATOMIC;
  CHECK(stagger_backward_host(plan.get(), &call, 1, STAGGER_FP32) == STAGGER_E_UNSUPPORTED);
  CHECK(stagger_status_new(nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_json("{}", nullptr) == STAGGER_E_USAGE);
  stagger_plan_destroy(nullptr);
  stagger_status_free(nullptr);
  stagger_free(nullptr);
}

TEST_CASE("c: an older program's shorter structs are read as far as they go") {
  stagger_info info{};
  info.size = 12;
  info.has_cuda = 77;
  REQUIRE(stagger_query(&info) == STAGGER_OK);
  CHECK(info.abi == STAGGER_ABI);
  CHECK(info.has_cuda == 77);
  CHECK(info.size == 12);
  stagger_problem problem = problem_of("full", "shift");
  problem.size = offsetof(stagger_problem, mask);  // a mask that is not there is causal
  stagger_plan* plan = nullptr;
  REQUIRE(stagger_plan_create(&problem, &plan) == STAGGER_OK);
  const PlanPointer owner(plan);
  CHECK(std::string(info_of(owner).mask) == "causal");
}

TEST_CASE("c: auto is a pure function, meets what is asked for, and says what it chose") {
  stagger_problem problem = problem_of("causal", "auto");
  problem.sms = 132;
  problem.seq_q = problem.seq_kv = 2048;
  const stagger_plan_info first = info_of(plan_of(problem));
  const stagger_plan_info second = info_of(plan_of(problem));
  CHECK(first.order_digest == second.order_digest);
  CHECK(std::string(first.schedule) == second.schedule);
  CHECK(first.predicted_ns > 0);
  // No span that one could name is predicted to be more than 1 % faster.
  for (const std::int32_t span : {1, 2}) {
    stagger_problem named = problem;
    named.span = span;
    CHECK(100 * info_of(plan_of(named)).predicted_ns >= 99 * first.predicted_ns);
  }
  problem.schedule = nullptr;
  CHECK(info_of(plan_of(problem)).order_digest == first.order_digest);
  problem.launch = STAGGER_LAUNCH_ELASTIC;
  const stagger_plan_info elastic = info_of(plan_of(problem));
  CHECK(elastic.resident_needed == 1);
  CHECK(elastic.launch == STAGGER_LAUNCH_ELASTIC);
  problem.schedule = "symmetric-shift";
  stagger_plan* none = nullptr;
  CHECK(stagger_plan_create(&problem, &none) == STAGGER_E_UNSUPPORTED);
  problem.launch = STAGGER_LAUNCH_AUTO;
  problem.flags = STAGGER_INVARIANT;
  const stagger_plan_info invariant = info_of(plan_of(problem));
  CHECK(invariant.invariant == 1);
  CHECK(invariant.ctas <= 132);
}

TEST_CASE("c: malformed requests are refused, whatever bytes they are") {
  char* text = nullptr;
  for (const char* request :
       {"", "{", "[]", "{}", "{\"command\": 3}", "{\"command\": \"completion\"}",
        "{\"command\": \"compare\", \"options\": 3}",
        "{\"command\": \"compare\", \"options\": {\"jsn\": 1}}",
        "{\"command\": \"verify\", \"options\": {\"file\": \"-\"}}",
        "{\"command\": \"compare\", \"more\": 1}"}) {
    CAPTURE(request);
    CHECK(stagger_json(request, &text) == STAGGER_E_INPUT);
  }
  CHECK(stagger_json(nullptr, &text) == STAGGER_E_USAGE);
  test::Random random(5);
  for (int round = 0; round < 100'000; ++round) {
    std::string request = R"({"command": "analyze", "options": {"mask": "causal", "n": 4}})";
    const bool of_any_bytes = round % 2 == 0;
    if (of_any_bytes) request.resize(static_cast<std::size_t>(random.between(1, 60)));
    for (char& byte : request) {
      if (of_any_bytes) byte = static_cast<char>(random.between(1, 255));
    }
    for (int change = 0; change < 3; ++change) {
      request[static_cast<std::size_t>(
          random.between(0, static_cast<std::int32_t>(request.size()) - 1))] =
          static_cast<char>(random.between(1, 126));
    }
    if (stagger_json(request.c_str(), &text) == STAGGER_OK) stagger_free(text);
  }
  REQUIRE(stagger_json(R"({"command": "analyze", "options": {"mask": "causal", "n": 4}})", &text) ==
          STAGGER_OK);
  const std::string response(text);
  stagger_free(text);
  CHECK(response.find("{\"exit_code\": 2, \"error\": ") == 0);  // no schedule
}

}  // namespace
}  // namespace stagger
