// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/completion.hpp"

#include <fmt/format.h>

namespace tremula::cli::manual {

namespace {

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option& option : command.options)
    if (!option.is_positional) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// Returns the bash cases that complete the value after an option that takes one.
std::string values_bash(const Command& command) {
  std::string lists, files;
  for (const Option& option : command.options) {
    if (option.is_positional || option.value.empty() || option.may_lack_value) continue;
    for (const std::string& name : option.names) {
      const std::string after = fmt::format("'{} {}'", command.name, name);
      if (option.choices.empty())
        files += (files.empty() ? "" : " | ") + after;
      else
        lists += fmt::format("      {}) words='{}' ;;\n", after, joined(option.choices));
    }
  }
  return lists + (files.empty() ? "" : fmt::format("      {}) ;;\n", files));
}

/// Escapes a text for '...' in zsh, where [ ] : have a meaning for _arguments.
std::string in_quotes(std::string_view plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string options_zsh(const Command& command) {
  std::string out;
  for (const Option& option : command.options) {
    if (option.is_positional) continue;
    const std::string_view value = std::string_view(option.value).substr(0, option.value.find(':'));
    std::string argument;
    if (!option.choices.empty())
      argument = fmt::format(":{}:({})", in_quotes(value), joined(option.choices));
    else if (!option.value.empty())
      argument = fmt::format("{}:{}:_files", option.may_lack_value ? ":" : "", in_quotes(value));
    for (const std::string& name : option.names)
      out += fmt::format(" \\\n        '{}[{}]{}'", name, in_quotes(option.description), argument);
  }
  return out;
}

}  // namespace

std::string bash_completion(const Program& program) {
  std::vector<std::string> first;
  std::string values, options;
  for (const Command& command : program.commands) {
    first.push_back(command.name);
    values += values_bash(command);
    options +=
        fmt::format("      {}\\ *) words='{}' ;;\n", command.name, joined(option_names(command)));
  }
  const std::vector<std::string> own = option_names(program.itself);
  first.insert(first.end(), own.begin(), own.end());
  return fmt::format(R"(# SPDX-License-Identifier: Apache-2.0
# Completion of {0} for bash; made from the definitions of its command line.
_{0}() {{
  local words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='{1}'
  else
    case "${{COMP_WORDS[1]}} $3" in
{2}{3}    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}}
complete -o default -F _{0} {0}
)",
                     program.itself.name, joined(first), values, options);
}

std::string zsh_completion(const Program& program) {
  std::string commands, options;
  for (const Command& command : program.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, in_quotes(command.description));
    options += fmt::format("      {}) _arguments{} ;;\n", command.name, options_zsh(command));
  }
  return fmt::format(R"(#compdef {0}
# SPDX-License-Identifier: Apache-2.0
# Completion of {0} for zsh; made from the definitions of its command line.
_{0}() {{
  local state
  local -a commands=(
{1}  )
  _arguments -C{2} \
        '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument) case $words[1] in
{3}    esac ;;
  esac
}}
_{0} "$@"
)",
                     program.itself.name, commands, options_zsh(program.itself), options);
}

}  // namespace tremula::cli::manual
