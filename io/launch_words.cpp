#include "io/launch_words.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "tessera/error.hpp"

namespace tessera {
namespace {

using Variables = std::map<std::string, std::string>;

bool name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// Replaces the variable that starts at text[at] == '$'; moves `at` behind it.
std::string expand(std::string_view text, std::size_t& at, const Variables& variables) {
  const std::size_t begin = at++;
  const bool braces = at < text.size() && text[at] == '{';
  if (braces) ++at;
  std::string name;
  while (at < text.size() && name_character(text[at])) name += text[at++];
  std::string fallback;
  bool has_fallback = false;
  if (braces) {
    if (at + 1 < text.size() && text[at] == ':' && (text[at + 1] == '-' || text[at + 1] == '=')) {
      has_fallback = true;
      at += 2;
    }
    while (at < text.size() && text[at] != '}') fallback += text[at++];
    if (at < text.size()) ++at;
  }
  if (const auto found = variables.find(name); found != variables.end()) return found->second;
  return has_fallback ? fallback : std::string(text.substr(begin, at - begin));
}

/// NAME=value at the start of a word defines a variable; arrays (NAME=( ...) only lose their head, and a value
/// that is a list of arguments (ARGS="--num-layers 24 ...") is left in `word` for the caller to split.
bool assign(std::string& word, Variables& variables) {
  const auto equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || word.front() == '-') return false;
  if (!std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), name_character)) return false;
  const std::string value = word.substr(equals + 1);
  if (value.starts_with("(")) {  // the first word of an array
    word = value.substr(1);
    return word.empty();
  }
  if (value.find("--") != std::string::npos) {
    variables[word.substr(0, equals)] = "";  // its words are taken where they are written
    word = value;
    return false;
  }
  variables[word.substr(0, equals)] = value;
  return true;
}

void push(std::vector<std::string>& out, const std::string& word) {
  if (word.starts_with("--") || word.starts_with(" ") || word.starts_with("\n")) {
    if (const auto end = std::find_if(word.begin(), word.end(), space); end != word.end()) {  // an argument list in quotes
      std::istringstream pieces(word);
      for (std::string piece; pieces >> piece;) push(out, piece);
      return;
    }
  }
  if (!word.starts_with("--")) {
    out.push_back(word);
    return;
  }
  const auto equals = word.find('=');
  std::string name = word.substr(0, equals);
  if (equals == std::string::npos && name.back() == ':') name.pop_back();
  out.push_back(name);
  if (equals != std::string::npos) out.push_back(word.substr(equals + 1));
}

}  // namespace

std::vector<std::string> launch_words(std::string_view text, const std::string& name) {
  std::vector<std::string> out;
  Variables variables;
  std::string word;
  bool started = false;  // a quoted empty word is a word
  int parentheses = 0;   // of "([0]*3+[1]*58)", which stay, unlike those of an array
  const auto finish = [&] {
    if (started && !assign(word, variables) && word != "(" && word != ")" && word != "\\") {
      if (parentheses < 0 && word.ends_with(")")) word.pop_back();  // closes an array
      push(out, word);
    }
    word.clear();
    started = false;
    parentheses = 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (space(c)) {
      finish();
      ++at;
    } else if (c == '#' && !started) {
      while (at < text.size() && text[at] != '\n') ++at;
    } else if (c == '\\' && at + 1 < text.size()) {
      if (text[at + 1] != '\n' && text[at + 1] != '\r') word += text[at + 1], started = true;
      at += 2;
    } else if (c == '"' || c == '\'') {
      started = true;
      const std::size_t opened = at++;
      while (at < text.size() && text[at] != c) {
        const bool continued = c == '"' && text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '\n';
        if (continued) at += 2;
        else if (c == '"' && text[at] == '$') word += expand(text, at, variables);
        else word += text[at++];
      }
      if (at == text.size())
        throw InputError(name + ": a quote is not closed", "it opens at character " + std::to_string(opened + 1), "close it.");
      ++at;
    } else if (c == '$') {
      for (const char each : expand(text, at, variables)) {
        if (space(each)) finish();
        else word += each, started = true;
      }
    } else {
      started = true;
      parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
      word += c;
      ++at;
    }
  }
  finish();
  return out;
}

}  // namespace tessera
