// SPDX-License-Identifier: Apache-2.0
#include "cli/status_json.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cctype>
#include <iterator>

#include "core/element_type.hpp"
#include "proto/attributes.hpp"

namespace tremula::cli {

namespace {

using google::protobuf::FieldDescriptor, google::protobuf::Message;

void append(std::string& out, const Message& message, int depth);

/// Appends one value of a field.
/// @param at  index in a repeated field; -1 for a single field
void append(std::string& out, const Message& message, const FieldDescriptor& field, int at,
            int depth) {
  const google::protobuf::Reflection& of = *message.GetReflection();
  const auto value = [&](auto single, auto repeated) {
    return at < 0 ? (of.*single)(message, &field) : (of.*repeated)(message, &field, at);
  };
  using R = google::protobuf::Reflection;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return append(
          out, at < 0 ? of.GetMessage(message, &field) : of.GetRepeatedMessage(message, &field, at),
          depth);
    case FieldDescriptor::CPPTYPE_STRING:
      if (const auto text = value(&R::GetString, &R::GetRepeatedString);
          field.type() == FieldDescriptor::TYPE_BYTES)  // all fields of type bytes are attributes
        out += proto::to_json(proto::decode_attributes(proto::bytes_of(text)));
      else
        out += proto::quoted(text);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      out += value(&R::GetBool, &R::GetRepeatedBool) ? "true" : "false";
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      out += fmt::format("{}", value(&R::GetDouble, &R::GetRepeatedDouble));
      return;
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto number = value(&R::GetInt32, &R::GetRepeatedInt32);
      out += field.name() == "element_type"
                 ? proto::quoted(core::to_string(static_cast<core::ElementType>(number)))
                 : fmt::format("{}", number);
      return;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      // In the options, WHEN_FULL_DROP_NEWEST of the type WhenFull is called "drop_newest".
      std::string name(of.GetEnum(message, &field)->name());
      name.erase(0, std::string_view("WHEN_FULL_").size());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      out += proto::quoted(name);
      return;
    }
    case FieldDescriptor::CPPTYPE_INT64:
      out += fmt::format("{}", value(&R::GetInt64, &R::GetRepeatedInt64));
      return;
    default:
      out += fmt::format("{}", value(&R::GetUInt64, &R::GetRepeatedUInt64));
  }
}

void append(std::string& out, const Message& message, int depth) {
  const std::string indent(static_cast<std::size_t>(2 * depth + 2), ' ');
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  out += '{';
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    fmt::format_to(std::back_inserter(out), "{}\n{}{}: ", f == 0 ? "" : ",", indent,
                   proto::quoted(field.name()));
    if (field.has_optional_keyword() && !message.GetReflection()->HasField(message, &field)) {
      out += "null";
      continue;
    }
    if (!field.is_repeated()) {
      append(out, message, field, -1, depth + 1);
      continue;
    }
    const int count = message.GetReflection()->FieldSize(message, &field);
    out += '[';
    for (int i = 0; i < count; ++i) {
      if (i > 0) out += ", ";
      append(out, message, field, i, depth + 1);
    }
    out += ']';
  }
  out += '\n' + indent.substr(2) + '}';
}

}  // namespace

std::string status_json(const wire::Status& status) {
  std::string out;
  append(out, status, 0);
  return out + '\n';
}

}  // namespace tremula::cli
