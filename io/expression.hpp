// Conditions on rows, as a person types them: split == 4 && memory_bytes < 150GiB && schedule != '1f1b'
//
// Operators, loosest first: ||  &&  == != < <= > >=  + -  * /  unary ! and -; parentheses. Names are columns.
// A number may carry a unit, which turns it into base units: B kB MB GB TB KiB MiB GiB TiB, us ms s min h d, %,
// and the powers k M G T alone. Text stands in single or double quotes. Types are checked when the expression is
// read: a message names the place and the nearest known name.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// A column as an expression sees it.
struct Symbol {
  std::string name;
  bool is_text = false;
  int index = 0;  ///< given back to RowValues
  std::vector<std::string> words{};  ///< of text: all that it can be; empty: anything
};

/// The values of one row, by Symbol::index.
class RowValues {
 public:
  virtual ~RowValues() = default;
  virtual double number(int index) const = 0;
  virtual std::string_view text(int index) const = 0;
};

class Expression {
 public:
  /// Throws InputError with the position in `text`.
  Expression(const std::string& text, const std::vector<Symbol>& symbols);
  /// Comparisons with a number that is no number (0 / 0) are false.
  bool matches(const RowValues&) const;
  /// Indices of the columns it needs, ascending.
  const std::vector<int>& used() const { return used_; }

 private:
  friend class ExpressionParser;
  enum class Op : unsigned char { number, variable, text, text_variable, negate, logical_not, add, subtract, multiply, divide, less, less_equal,
                                  greater, greater_equal, equal, not_equal, text_equal, text_not_equal, logical_and, logical_or };
  struct Node {
    Op op;
    int left = -1, right = -1;  ///< nodes; of a variable: left is its index
    double value = 0;
    std::string word;
  };
  double evaluate(int node, const RowValues&) const;
  std::string_view word(int node, const RowValues&) const;
  std::vector<Node> nodes_;
  int root_ = -1;
  std::vector<int> used_;
};

}  // namespace tessera
