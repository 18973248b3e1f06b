// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/man_page.hpp"

#include <fmt/format.h>

#include <map>
#include <span>

#include "cli/manual/examples.hpp"

namespace tremula::cli::manual {

namespace {

/// Escapes a text so that man prints it unchanged: characters that man would replace, or read as
/// commands, are written by name.
std::string text(std::string_view plain) {
  static const std::map<char, std::string_view> names{
      {'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  std::string out;
  for (const char c : plain) {
    if (c == '.' && (out.empty() || out.back() == '\n')) out += "\\&";
    const auto name = names.find(c);
    if (name == names.end())
      out += c;
    else
      out += name->second;
  }
  return out;
}

std::string upper(std::string name) {
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

std::string head(const std::string& page, const std::string& version,
                 const std::string& description) {
  return fmt::format(".TH {} 1 \"\" \"Tremula {}\" \"Tremula\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n",
                     text(upper(page)), text(version), text(page), text(description));
}

std::string options_text(const Command& command) {
  std::string out = ".SH OPTIONS\n";
  for (const Option& option : command.options) {
    out += ".TP\n";
    for (const std::string& name : option.names)
      out += fmt::format("{}\\fB{}\\fR", &name == &option.names.front() ? "" : ", ", text(name));
    if (!option.value.empty()) out += fmt::format(" \\fI{}\\fR", text(option.value));
    if (option.is_required) out += " (required)";
    out += '\n' + text(option.description);
    if (!(option.needs + option.excludes).empty()) out += '.';
    out += '\n';
    if (!option.needs.empty()) out += "Needs " + text(option.needs) + ".\n";
    if (!option.excludes.empty()) out += "Not with " + text(option.excludes) + ".\n";
  }
  return out;
}

/// Returns the section with the footer, whose lines it keeps as they are.
std::string notes(const std::string& footer) {
  if (footer.empty()) return "";
  return ".SH NOTES\n.nf\n" + text(footer) + "\n.fi\n";
}

const char* const exit_status =
    ".SH EXIT STATUS\n.TP\n0\nSuccess.\n.TP\n1\nThe command failed; a line on standard error "
    "states "
    "what was expected, what was found and what to do.\n.TP\n2\nThe command line is not valid.\n";

std::string examples_text(std::span<const Example> all) {
  if (all.empty()) return "";
  std::string out = ".SH EXAMPLES\n";
  for (const Example& example : all)
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", text(example.line), text(example.effect));
  return out;
}

/// Returns the section that names all pages except that of `own`.
std::string see_also(const Program& program, const Command& own) {
  std::string out = ".SH SEE ALSO\n";
  if (&own != &program.itself) out += fmt::format(".BR {} (1),\n", text(program.itself.name));
  for (const Command& command : program.commands)
    if (&own != &command)
      out += fmt::format(".BR {} (1),\n", text(program.itself.name + "-" + command.name));
  return out + ".I share/doc/tremula/docs/index.md\n";
}

}  // namespace

std::string program_page(const Program& program, const std::string& version) {
  const std::string& name = program.itself.name;
  std::string description = program.itself.description;
  if (description.ends_with('.')) description.pop_back();
  std::string out =
      head(name, version, description) +
      fmt::format(".SH SYNOPSIS\n.B {0}\n.I COMMAND\n[\\fIOPTION\\fR]...\n.SH COMMANDS\n",
                  text(name));
  for (const Command& command : program.commands)
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", text(command.name), text(command.description));
  return out + options_text(program.itself) + exit_status + see_also(program, program.itself);
}

std::string command_page(const Program& program, const Command& command,
                         const std::string& version) {
  const std::string& name = program.itself.name;
  std::string out =
      head(name + "-" + command.name, version, command.description) +
      fmt::format(".SH SYNOPSIS\n.B {} {}\n[\\fIOPTION\\fR]...\n", text(name), text(command.name));
  for (const Option& option : command.options)
    if (option.is_positional)
      out += fmt::format("{0}\\fI{1}\\fR{2}\n", option.is_required ? "" : "[",
                         text(upper(option.names.front())), option.is_required ? "" : "]");
  return out + options_text(command) + notes(command.footer) + exit_status +
         examples_text(examples(command.name)) + see_also(program, command);
}

}  // namespace tremula::cli::manual
