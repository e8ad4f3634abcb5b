// stagger_json: a command of the command line, called by a program. What it would print is the
// response, and its exit status is in it: options and reports are the command's own.

#include "cli/captured_output.hpp"
#include "cli/commands.hpp"
#include "cli/config.hpp"
#include "cli/error_code.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "core/json.hpp"
#include "core/json_value.hpp"
#include "core/nearest.hpp"
#include "workbench/c_guard.hpp"
#include "workbench/stagger.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

constexpr const char* kCallable =
    "list show analyze compare advise verify export run calibrate predict formulas optimize lint "
    "diff block overlap version";
constexpr const char* kCancel = "cancel";

const Command& command_named(const JsonValue& name) {
  std::vector<std::string> known;
  for (const Command* command : commands()) {
    if (!has_word(kCallable, command->name)) continue;
    if (name.string() == command->name) return *command;
    known.emplace_back(command->name);
  }
  known.emplace_back(kCancel);
  name.reject(unknown_name("command", name.string(), known));
}

/// Requests under way that another thread can cancel, by the ids that they have.
class Requests {
 public:
  /// nullptr if a request of that id is under way.
  std::shared_ptr<const std::atomic<bool>> begin(const std::string& id) {
    const std::scoped_lock lock(mutex_);
    auto flag = std::make_shared<std::atomic<bool>>(false);
    return running_.emplace(id, flag).second ? flag : nullptr;
  }
  void end(const std::string& id) {
    const std::scoped_lock lock(mutex_);
    running_.erase(id);
  }
  /// Whether there was one to cancel.
  bool cancel(const std::string& id) {
    const std::scoped_lock lock(mutex_);
    const auto found = running_.find(id);
    if (found == running_.end()) return false;
    *found->second = true;
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<std::atomic<bool>>> running_;
};

Requests& requests() {
  static Requests all;
  return all;
}

/// Standard input is no program's to give away.
void refuse_standard_input(const OptionRow& row, const Given& given, const JsonValue& value) {
  if (row.name == std::string_view("output")) return;
  if (std::ranges::count(given.words, "-") > 0)
    value.reject("'-' is standard input, which only a command line has");
}

/// The words that a program would have typed.
std::vector<std::string> words_of(const Command& command, const JsonValue& options) {
  std::vector<std::string> words = {command.name};
  std::vector<std::string> known;
  for (const OptionRow* row : rows_of(command.name)) {
    if (!has_word("config help json csv markdown", row->name)) known.emplace_back(row->name);
  }
  for (const std::string& key : options.keys()) {
    const JsonValue value = options.at(key);
    const OptionRow* const row = find_row(command.name, key);
    if (row == nullptr || std::ranges::count(known, key) == 0) {
      value.reject(unknown_name(std::string("option of ") + command.name, key, known));
    }
    const Given given = given_by(*row, value);
    refuse_standard_input(*row, given, value);
    for (const std::string& word : given.words) {
      if (row->argument && word.starts_with('-')) value.reject("begins with a dash");
      if (row->argument) {
        words.push_back(word);
      } else {
        words.push_back(row->flag() ? row->spelled() : row->spelled() + "=" + word);
      }
    }
  }
  if (find_row(command.name, "json") != nullptr) words.emplace_back("--json");
  return words;
}

bool writes(const Options& options) {
  return (!options.output.empty() && options.output != "-") || !options.proof.empty();
}

/// What a response says beside its exit code: a report as it is printed, or what was written in the
/// place of one.
std::string member_of(const Options& options, const std::string& text) {
  if (options.output == "-") return "\"text\": " + json_quote(text);
  return "\"report\": " + (text.empty() ? "null" : text);
}

/// What the command would have said beside its report, if anything.
std::string messages_of(const CapturedOutput& output) {
  if (output.complaints().empty()) return "";
  return ", \"messages\": " + Json(output.complaints()).line();
}

std::string response_to(const std::vector<std::string>& words) {
  static std::mutex writers;  // files that are being written have one list
  try {
    const CommandLine line = parse(words);
    std::unique_lock<std::mutex> lock(writers, std::defer_lock);
    if (writes(line.options)) {
      lock.lock();
      for (const std::string* path : {&line.options.output, &line.options.proof}) {
        if (!path->empty()) expect_writable(*path);
      }
    }
    const CapturedOutput output;
    const int code = line.command->run(line.options);
    return "{\"exit_code\": " + std::to_string(code) + ", " +
           member_of(line.options, output.text()) + messages_of(output) + "}";
  } catch (const Error& error) {
    const Json json = {{"exit_code", static_cast<int>(exit_code(error.kind()))},
                       {"error", error.what()}};
    return json.line();
  }
}

/// The response to a request that another one can cancel.
std::string response_to(const std::vector<std::string>& words, const JsonValue& id) {
  const std::string name = id.string();
  auto cancelled = requests().begin(name);
  if (!cancelled) id.reject("a request of this id is under way");
  struct End {
    const std::string& name;
    ~End() { requests().end(name); }
  } const end{name};
  const Cancellable cancellable(std::move(cancelled));
  return response_to(words);
}

std::string response_to(const JsonValue& request) {
  if (request.at("command").string() == kCancel) {
    request.expect_keys({"command", "id"});
    const bool found = requests().cancel(request.at("id").string());
    return Json{{"exit_code", 0}, {"report", {{"cancelled", found}}}}.line();
  }
  request.expect_keys({"command", "options", "id"});
  const Command& command = command_named(request.at("command"));
  std::vector<std::string> words = {command.name, "--json"};
  if (request.has("options")) words = words_of(command, request.at("options"));
  return request.has("id") ? response_to(words, request.at("id")) : response_to(words);
}

}  // namespace
}  // namespace stagger::cli

int32_t stagger_json(const char* request, char** response) {
  using namespace stagger;
  return workbench::c::guarded([&] {
    workbench::c::expect(request, "request");
    workbench::c::expect(response, "response");
    const JsonDocument document(request, "request");
    *response = workbench::c::copied(cli::response_to(document.root()));
  });
}
