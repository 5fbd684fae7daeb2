#include "io/expression.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "io/toml_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct UnitScale {
  std::string_view name;
  double scale;
};
constexpr double kMinute = 60, kHour = 3600;
constexpr UnitScale kUnits[] = {{"B", 1},      {"kB", 1e3},    {"KB", 1e3},  {"MB", 1e6},    {"GB", 1e9},   {"TB", 1e12},  {"KiB", kKiB},
                                {"MiB", kMiB}, {"GiB", kGiB},  {"TiB", kTiB}, {"us", 1e-6},   {"ms", 1e-3},  {"s", 1},      {"min", kMinute},
                                {"h", kHour},  {"d", kSecondsPerDay}, {"%", 1e-2}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9},    {"T", 1e12}};
constexpr int kDeepest = 200;              // parentheses within parentheses: the parser recurses
constexpr std::size_t kMostNodes = 5000;  // so does the evaluation, along chains of one operator

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

class ExpressionParser {
 public:
  ExpressionParser(Expression& out, const std::string& text, const std::vector<Symbol>& symbols) : out_(out), text_(text), symbols_(symbols) {}

  void parse() {
    out_.root_ = either();
    skip();
    if (at_ < text_.size()) fail("unexpected '" + text_.substr(at_, 1) + "'", "an operator or the end is expected", "check the expression.");
    need_number(out_.root_, 0);
    std::sort(out_.used_.begin(), out_.used_.end());
    out_.used_.erase(std::unique(out_.used_.begin(), out_.used_.end()), out_.used_.end());
  }

 private:
  using Op = Expression::Op;

  [[noreturn]] void fail(const std::string& problem, const std::string& why, const std::string& remedy) const {
    throw InputError(fmt::format("'{}', character {}: {}", text_, std::min(at_, text_.size()) + 1, problem), why, remedy);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  int node(Op op, int left = -1, int right = -1) {
    if (out_.nodes_.size() >= kMostNodes) fail("too long", fmt::format("more than {} terms", kMostNodes), "simplify it.");
    out_.nodes_.push_back({op, left, right, 0, {}});
    return static_cast<int>(out_.nodes_.size()) - 1;
  }
  bool is_text(int n) const {
    const Op op = out_.nodes_[static_cast<std::size_t>(n)].op;
    return op == Op::text || op == Op::text_variable;
  }
  void need_number(int n, std::size_t place) {
    if (!is_text(n)) return;
    at_ = place;
    fail("text where a number or condition is needed", "text can only be compared with == and !=", "compare it, e.g. schedule == '1f1b'.");
  }

  // A misspelt word would be equal to nothing and hide that it is one.
  void need_word(int column, int word, std::size_t place) {
    const auto &variable = out_.nodes_[static_cast<std::size_t>(column)], &constant = out_.nodes_[static_cast<std::size_t>(word)];
    if (variable.op != Op::text_variable || constant.op != Op::text) return;
    for (const auto& symbol : symbols_) {
      if (symbol.index != variable.left || symbol.words.empty()) continue;
      if (std::find(symbol.words.begin(), symbol.words.end(), constant.word) != symbol.words.end()) return;
      at_ = place;
      fail(fmt::format("{} is never '{}'", symbol.name, constant.word), "it is one of a few words", suggestion(constant.word, symbol.words));
    }
  }

  int either() {
    if (++depth_ > kDeepest) fail("too many parentheses", "the expression is nested too deeply", "simplify it.");
    int left = both();
    for (std::size_t place = at_; take("||"); place = at_) left = logical(Op::logical_or, left, both(), place);
    --depth_;
    return left;
  }
  int both() {
    int left = comparison();
    for (std::size_t place = at_; take("&&"); place = at_) left = logical(Op::logical_and, left, comparison(), place);
    return left;
  }
  int logical(Op op, int left, int right, std::size_t place) {
    need_number(left, place);
    need_number(right, place);
    return node(op, left, right);
  }
  int comparison() {
    const int left = sum();
    skip();
    const std::size_t place = at_;
    static constexpr std::pair<std::string_view, Op> kOperators[] = {{"==", Op::equal}, {"!=", Op::not_equal}, {"<=", Op::less_equal},
                                                                     {">=", Op::greater_equal}, {"<", Op::less}, {">", Op::greater}};
    for (const auto& [token, op] : kOperators) {
      if (!take(token)) continue;
      const int right = sum();
      if (is_text(left) && is_text(right) && (op == Op::equal || op == Op::not_equal)) {
        need_word(left, right, place);
        need_word(right, left, place);
        return node(op == Op::equal ? Op::text_equal : Op::text_not_equal, left, right);
      }
      need_number(left, place);
      need_number(right, place);
      return node(op, left, right);
    }
    if (at_ < text_.size() && text_[at_] == '=') fail("a single '='", "comparing is written with two", "write ==.");
    return left;
  }
  int sum() {
    int left = product();
    for (;;) {
      const std::size_t place = at_;
      if (take("+")) left = logical(Op::add, left, product(), place);
      else if (take("-")) left = logical(Op::subtract, left, product(), place);
      else return left;
    }
  }
  int product() {
    int left = unary();
    for (;;) {
      const std::size_t place = at_;
      if (take("*")) left = logical(Op::multiply, left, unary(), place);
      else if (take("/")) left = logical(Op::divide, left, unary(), place);
      else return left;
    }
  }
  int unary() {
    if (++depth_ > kDeepest) fail("too many operators", "the expression is nested too deeply", "simplify it.");
    skip();
    const std::size_t place = at_;
    int result = -1;
    if (text_.compare(at_, 2, "!=") != 0 && take("!")) result = node(Op::logical_not, unary());
    else if (take("-")) result = node(Op::negate, unary());
    else result = primary();
    const Op op = out_.nodes_[static_cast<std::size_t>(result)].op;
    if (op == Op::logical_not || op == Op::negate) need_number(out_.nodes_[static_cast<std::size_t>(result)].left, place);
    --depth_;
    return result;
  }
  int primary() {
    skip();
    if (at_ == text_.size()) fail("the expression ends too early", "a column, number or text is expected", "complete it.");
    const char c = text_[at_];
    if (take("(")) {
      const int inside = either();
      if (!take(")")) fail("a missing ')'", "a parenthesis is open", "close it.");
      return inside;
    }
    if (c == '\'' || c == '"') return quoted(c);
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return number();
    if (is_name_start(c)) return variable();
    fail(fmt::format("unexpected '{}'", c), "a column, number or text is expected", "check the expression.");
  }
  int quoted(char quote) {
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("a text without its closing quote", "it has no end", "close it.");
    const int n = node(Op::text);
    out_.nodes_[static_cast<std::size_t>(n)].word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return n;
  }
  int number() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) fail("not a number", "it cannot be read", "write for example 150 or 1.5e9.");
    at_ += static_cast<std::size_t>(end - begin);
    value *= unit();
    const int n = node(Op::number);
    out_.nodes_[static_cast<std::size_t>(n)].value = value;
    return n;
  }
  double unit() {
    skip();
    std::size_t end = at_;
    if (end < text_.size() && text_[end] == '%') ++end;
    else
      while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string name = text_.substr(at_, end - at_);
    if (name.empty()) return 1;
    std::vector<std::string> known;
    for (const auto& unit : kUnits) {
      if (unit.name == name) {
        at_ = end;
        return unit.scale;
      }
      known.emplace_back(unit.name);
    }
    const auto alike = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b)); };
    const auto same = std::find_if(known.begin(), known.end(), [&](const std::string& unit) {  // GIB is nearer to GiB than to GB
      return std::equal(unit.begin(), unit.end(), name.begin(), name.end(), alike);
    });
    if (same != known.end()) known = {std::string(*same)};
    fail("unknown unit '" + name + "'", "a number's unit turns it into base units", suggestion(name, known));
  }
  int variable() {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const std::string name = text_.substr(at_, end - at_);
    if (name == "true" || name == "false") {
      at_ = end;
      const int n = node(Op::number);
      out_.nodes_[static_cast<std::size_t>(n)].value = name == "true" ? 1 : 0;
      return n;
    }
    std::vector<std::string> known;
    for (const auto& symbol : symbols_) {
      if (symbol.name == name) {
        at_ = end;
        out_.used_.push_back(symbol.index);
        return node(symbol.is_text ? Op::text_variable : Op::variable, symbol.index);
      }
      known.push_back(symbol.name);
    }
    fail("unknown column '" + name + "'", "this table has no such column", suggestion(name, known));
  }

  Expression& out_;
  const std::string& text_;
  const std::vector<Symbol>& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Expression::Expression(const std::string& text, const std::vector<Symbol>& symbols) { ExpressionParser(*this, text, symbols).parse(); }

bool Expression::matches(const RowValues& row) const {
  const double value = evaluate(root_, row);
  return !std::isnan(value) && value != 0;
}

std::string_view Expression::word(int index, const RowValues& row) const {
  const Node& n = nodes_[static_cast<std::size_t>(index)];
  return n.op == Op::text ? std::string_view(n.word) : row.text(n.left);
}

double Expression::evaluate(int index, const RowValues& row) const {
  const Node& n = nodes_[static_cast<std::size_t>(index)];
  const auto left = [&] { return evaluate(n.left, row); };
  const auto right = [&] { return evaluate(n.right, row); };
  const auto holds = [](double value) { return !std::isnan(value) && value != 0; };
  switch (n.op) {
    case Op::number: return n.value;
    case Op::variable: return row.number(n.left);
    case Op::negate: return -left();
    case Op::logical_not: return !holds(left());
    case Op::add: return left() + right();
    case Op::subtract: return left() - right();
    case Op::multiply: return left() * right();
    case Op::divide: return left() / right();
    case Op::less: return left() < right();
    case Op::less_equal: return left() <= right();
    case Op::greater: return left() > right();
    case Op::greater_equal: return left() >= right();
    case Op::equal: return left() == right();
    case Op::not_equal: return left() != right();
    case Op::text_equal: return word(n.left, row) == word(n.right, row);
    case Op::text_not_equal: return word(n.left, row) != word(n.right, row);
    case Op::logical_and: return holds(left()) && holds(right());
    case Op::logical_or: return holds(left()) || holds(right());
    case Op::text:
    case Op::text_variable: break;
  }
  return 0;
}

}  // namespace tessera
