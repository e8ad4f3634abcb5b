#include "tests/support/minizinc.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <stdexcept>

namespace stagger::test {

/// An expression: a word or sign with what it applies to.
struct MiniZincNode {
  std::string what;
  std::vector<MiniZincNode> parts = {};
};

namespace {

using Node = MiniZincNode;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("MiniZinc: " + what);
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const auto until = [&](auto belongs) {
      std::size_t end = at + 1;
      while (end < text.size() && belongs(text[end]))
        ++end;
      return end;
    };
    std::size_t end = at + 1;
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    if (text[at] == '%') {
      end = until([](char c) { return c != '\n'; });
    } else if (text[at] == '"') {
      end = until([](char c) { return c != '"'; }) + 1;
      words.emplace_back("\"");
    } else if (is_word(text[at])) {
      end = until(is_word);
      words.push_back(text.substr(at, end - at));
    } else if (!std::isspace(static_cast<unsigned char>(text[at]))) {
      for (const char* pair : {"/\\", "<=", ">=", "!=", ".."}) {
        if (text.compare(at, 2, pair) == 0) end = at + 2;
      }
      words.push_back(text.substr(at, end - at));
    }
    at = end;
  }
  return words;
}

/// Expressions by what binds them: /\ over comparisons over ranges over sums over the rest.
class Parser {
 public:
  explicit Parser(const std::string& text) : words_(words_of(text)) {}

  [[nodiscard]] bool ended() const { return at_ == words_.size(); }
  [[nodiscard]] const std::string& next() const {
    if (ended()) fail("the text ends too soon");
    return words_[at_];
  }
  bool take(const std::string& word) {
    if (ended() || words_[at_] != word) return false;
    ++at_;
    return true;
  }
  void expect(const std::string& word) {
    if (!take(word)) fail("no '" + word + "' before '" + (ended() ? "the end" : next()) + "'");
  }
  std::string word() {
    std::string word = next();
    ++at_;
    return word;
  }
  void skip_item() {
    while (word() != ";") {
    }
  }

  Node expression() {
    Node node = comparison();
    while (take("/\\"))
      node = {"/\\", {std::move(node), comparison()}};
    return node;
  }

  Node generators() {
    Node node{"generators"};
    do {
      const std::string name = word();
      expect("in");
      node.parts.push_back({name, {comparison()}});
    } while (take(","));
    if (take("where")) node.parts.push_back({"where", {expression()}});
    return node;
  }

 private:
  Node comparison() {
    Node node = range();
    for (const char* sign : {"<=", ">=", "<", ">", "=", "!="}) {
      if (take(sign)) return {sign, {std::move(node), range()}};
    }
    return node;
  }
  Node range() {
    Node node = sum();
    if (take("..")) return {"..", {std::move(node), sum()}};
    return node;
  }
  Node sum() {
    Node node = term();
    for (;;) {
      const bool plus = !ended() && next() == "+";
      if (!take("+") && !take("-")) return node;
      node = {plus ? "+" : "-", {std::move(node), term()}};
    }
  }
  Node term() {
    if (take("(")) {
      Node node = expression();
      expect(")");
      return node;
    }
    if (take("[")) return bracket();
    const std::string name = word();
    if (std::isdigit(static_cast<unsigned char>(name[0]))) return {"number", {{name}}};
    if (name == "forall") return forall();
    if (take("[")) {
      Node node{"index", {{name}, expression()}};
      expect("]");
      return node;
    }
    if (!take("(")) return {"name", {{name}}};
    Node node{"call", {{name}}};
    do {
      node.parts.push_back(expression());
    } while (take(","));
    expect(")");
    return node;
  }
  Node forall() {
    expect("(");
    Node node{"forall", {generators()}};
    expect(")");
    expect("(");
    node.parts.push_back(expression());
    expect(")");
    return node;
  }
  Node bracket() {
    Node first = expression();
    if (take("|")) {
      Node node{"comprehension", {std::move(first), generators()}};
      expect("]");
      return node;
    }
    Node node{"array", {std::move(first)}};
    while (take(","))
      node.parts.push_back(expression());
    expect("]");
    return node;
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

bool all_different(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

/// Source: the constraint catalogue's definition, at every start.
bool cumulative(const std::vector<std::int64_t>& starts, const std::vector<std::int64_t>& durations,
                const std::vector<std::int64_t>& demands, std::int64_t capacity) {
  if (starts.size() != durations.size() || starts.size() != demands.size()) {
    fail("cumulative with arrays of different lengths");
  }
  return std::all_of(starts.begin(), starts.end(), [&](std::int64_t time) {
    std::int64_t demand = 0;
    for (std::size_t task = 0; task < starts.size(); ++task) {
      if (starts[task] <= time && time < starts[task] + durations[task]) demand += demands[task];
    }
    return demand <= capacity;
  });
}

}  // namespace

MiniZinc::MiniZinc(const std::string& model, const std::string& data) {
  read_data(data);
  Parser parser(model);
  while (!parser.ended()) {
    const std::string kind = parser.word();
    if (kind == "include" || kind == "solve" || kind == "output") {
      parser.skip_item();
    } else if (kind == "constraint") {
      constraints_.push_back(std::make_shared<const Node>(parser.expression()));
      parser.expect(";");
    } else if (kind == "int") {
      parser.expect(":");
      if (!numbers_.contains(parser.word())) fail("a number without data");
      parser.expect(";");
    } else if (kind == "array") {
      parser.expect("[");
      Node item{"array", {parser.expression()}};
      parser.expect("]");
      parser.expect("of");
      item.what = parser.take("var") ? "variables" : "array";
      if (!parser.take("int")) item.parts.push_back(parser.expression());
      parser.expect(":");
      item.parts.push_back({parser.word()});
      parser.expect(";");
      declare(item);
    } else {
      fail("unknown item '" + kind + "'");
    }
  }
}

void MiniZinc::read_data(const std::string& text) {
  Parser parser(text);
  while (!parser.ended()) {
    const std::string name = parser.word();
    parser.expect("=");
    if (parser.next() != "[") {
      numbers_[name] = std::stoll(parser.word());
    } else {
      arrays_[name].values = list(parser.expression(), {});
    }
    parser.expect(";");
  }
}

/// An array's index set, domain if it has one, and name.
void MiniZinc::declare(const Node& item) {
  const std::vector<std::int64_t> indices = list(item.parts.front(), {});
  const std::string& name = item.parts.back().what;
  Array& array = arrays_[name];
  array.variable = item.what == "variables";
  if (array.variable) array.values.resize(indices.size());
  if (array.values.size() != indices.size()) fail(name + " is not as long as its index set");
  if (!indices.empty() && indices.front() != 1) fail(name + " does not begin at 1");
  if (item.parts.size() < 3) return;
  const std::vector<std::int64_t> domain = list(item.parts[1], {});
  array.least = domain.empty() ? 0 : domain.front();
  array.most = domain.empty() ? -1 : domain.back();
  for (std::int64_t& value : array.values) {
    if (array.variable) value = array.least;
    if (value < array.least || value > array.most) fail(name + " has a value outside its domain");
  }
}

bool MiniZinc::satisfiable() {
  std::vector<std::pair<std::int64_t*, const Array*>> variables;
  for (auto& [name, array] : arrays_) {
    for (std::int64_t& value : array.values) {
      if (array.variable) variables.emplace_back(&value, &array);
    }
  }
  for (;;) {
    if (holds()) return true;
    std::size_t turned = 0;
    while (turned < variables.size() && *variables[turned].first == variables[turned].second->most)
      *variables[turned].first = variables[turned].second->least, ++turned;
    if (turned == variables.size()) return false;
    ++*variables[turned].first;
  }
}

bool MiniZinc::holds() const {
  return std::all_of(constraints_.begin(), constraints_.end(),
                     [&](const auto& constraint) { return value(*constraint, {}) != 0; });
}

std::int64_t MiniZinc::value(const Node& node, const Scope& scope) const {
  const auto part = [&](std::size_t index) { return value(node.parts[index], scope); };
  const std::string& what = node.what;
  if (what == "number") return std::stoll(node.parts[0].what);
  if (what == "/\\") return part(0) != 0 && part(1) != 0 ? 1 : 0;
  if (what == "<=") return part(0) <= part(1) ? 1 : 0;
  if (what == ">=") return part(0) >= part(1) ? 1 : 0;
  if (what == "<") return part(0) < part(1) ? 1 : 0;
  if (what == ">") return part(0) > part(1) ? 1 : 0;
  if (what == "=") return part(0) == part(1) ? 1 : 0;
  if (what == "!=") return part(0) != part(1) ? 1 : 0;
  if (what == "+") return part(0) + part(1);
  if (what == "-") return part(0) - part(1);
  if (what == "name") {
    const std::string& name = node.parts[0].what;
    if (const auto local = scope.find(name); local != scope.end()) return local->second;
    if (const auto number = numbers_.find(name); number != numbers_.end()) return number->second;
    fail("unknown name " + name);
  }
  if (what == "index") {
    const std::vector<std::int64_t>& values = arrays_.at(node.parts[0].what).values;
    const std::int64_t index = part(1);
    if (index < 1 || index > std::ssize(values)) fail("index out of range");
    return values[static_cast<std::size_t>(index) - 1];
  }
  if (what == "forall") {
    const std::vector<Scope> all = scopes(node.parts[0], scope);
    return std::all_of(all.begin(), all.end(),
                       [&](const Scope& each) { return value(node.parts[1], each) != 0; })
               ? 1
               : 0;
  }
  if (what == "call" && node.parts[0].what == "all_different") {
    return all_different(list(node.parts.at(1), scope)) ? 1 : 0;
  }
  if (what == "call" && node.parts[0].what == "cumulative") {
    return cumulative(list(node.parts.at(1), scope), list(node.parts.at(2), scope),
                      list(node.parts.at(3), scope), value(node.parts.at(4), scope))
               ? 1
               : 0;
  }
  fail("no value: " + what);
}

std::vector<std::int64_t> MiniZinc::list(const Node& node, const Scope& scope) const {
  std::vector<std::int64_t> values;
  if (node.what == "..") {
    const std::int64_t most = value(node.parts[1], scope);
    for (std::int64_t each = value(node.parts[0], scope); each <= most; ++each)
      values.push_back(each);
    return values;
  }
  if (node.what == "name") return arrays_.at(node.parts[0].what).values;
  if (node.what == "array") {
    for (const Node& part : node.parts)
      values.push_back(value(part, scope));
    return values;
  }
  if (node.what == "comprehension") {
    for (const Scope& each : scopes(node.parts[1], scope))
      values.push_back(value(node.parts[0], each));
    return values;
  }
  if (node.what == "call" && node.parts[0].what == "array2set") {
    const std::vector<std::int64_t> all = list(node.parts.at(1), scope);
    const std::set<std::int64_t> distinct(all.begin(), all.end());
    return {distinct.begin(), distinct.end()};
  }
  fail("no list: " + node.what);
}

std::vector<MiniZinc::Scope> MiniZinc::scopes(const Node& generators, const Scope& scope) const {
  std::vector<Scope> all = {scope};
  for (const Node& generator : generators.parts) {
    std::vector<Scope> more;
    for (const Scope& each : all) {
      if (generator.what == "where") {
        if (value(generator.parts[0], each) != 0) more.push_back(each);
        continue;
      }
      for (const std::int64_t item : list(generator.parts[0], each)) {
        more.push_back(each);
        more.back()[generator.what] = item;
      }
    }
    all = std::move(more);
  }
  return all;
}

}  // namespace stagger::test
