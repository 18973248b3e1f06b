// SPDX-License-Identifier: Apache-2.0
#include "proto/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <iterator>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/name.hpp"

namespace tremula::proto {

namespace {

constexpr std::size_t head_bytes = 8;  // precedes each name: its length, the type, the count
constexpr std::size_t number_bytes = 8, text_head_bytes = 4;

/// Returns foreign text in a form that is safe to show to users.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 64;
  return core::printable(text.size() <= most ? text : text.substr(0, most));
}

bool is_text(std::string_view text) {
  while (!text.empty()) {
    const bool is_blank = text.front() == '\n' || text.front() == '\t';
    const auto point = core::next_code_point(text);
    if (!is_blank && !(point && core::is_printable(*point))) return false;
  }
  return true;
}

std::size_t encoded_bytes(std::string_view name, const AttributeValues& values) {
  std::size_t bytes = head_bytes + name.size();
  std::visit(
      [&]<class T>(const std::vector<T>& of) {
        if constexpr (std::is_same_v<T, std::string>)
          for (const std::string& text : of) bytes += text_head_bytes + text.size();
        else
          bytes += of.size() * number_bytes;
      },
      values);
  return bytes;
}

template <std::unsigned_integral T>
void put(core::Bytes& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void put(core::Bytes& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put(core::Bytes& out, const Attribute& attribute) {
  put(out, static_cast<std::uint16_t>(attribute.name.size()));
  put(out, static_cast<std::uint16_t>(attribute.values.index() + 1));
  std::visit(
      [&]<class T>(const std::vector<T>& values) {
        put(out, static_cast<std::uint32_t>(values.size()));
        put(out, attribute.name);
        for (const T& value : values) {
          if constexpr (std::is_same_v<T, std::string>) {
            put(out, static_cast<std::uint32_t>(value.size()));
            put(out, value);
          } else {
            put(out, std::bit_cast<std::uint64_t>(value));
          }
        }
      },
      attribute.values);
}

core::Bytes encoded(const Attribute& attribute) {
  core::Bytes bytes;
  put(bytes, attribute);
  return bytes;
}

/// Reads untrusted bytes from the first to the last.
class Reader {
public:
  explicit Reader(core::BytesView bytes) : rest_(bytes) {}
  bool has_more() const { return !rest_.empty(); }
  core::BytesView bytes(std::size_t count) {
    if (count > rest_.size())
      throw core::Error(
          core::Errc::protocol,
          fmt::format("attributes: expected {} more bytes, found {}", count, rest_.size()));
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  template <std::unsigned_integral T>
  T number() {
    T value = 0;
    const auto taken = bytes(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | std::to_integer<T>(taken[i]) << (8 * i));
    return value;
  }
  std::string_view text(std::size_t count) {
    const auto taken = bytes(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  /// Checks that the remaining bytes can hold `count` items of at least `least_bytes`.
  /// @return `count`
  std::size_t items(std::size_t count, std::size_t least_bytes) const {
    if (count > rest_.size() / least_bytes)
      throw core::Error(
          core::Errc::protocol,
          fmt::format("attributes: expected {} values, found {} bytes", count, rest_.size()));
    return count;
  }

private:
  core::BytesView rest_;
};

AttributeValues values_of(Reader& in, unsigned type, std::size_t count) {
  switch (type) {
    case 1: {
      std::vector<std::int64_t> values(in.items(count, number_bytes));
      for (auto& value : values) value = static_cast<std::int64_t>(in.number<std::uint64_t>());
      return values;
    }
    case 2: {
      std::vector<double> values(in.items(count, number_bytes));
      for (auto& value : values) value = std::bit_cast<double>(in.number<std::uint64_t>());
      return values;
    }
    case 3: {
      std::vector<std::string> values(in.items(count, text_head_bytes));
      for (auto& value : values) value = in.text(in.number<std::uint32_t>());
      return values;
    }
    default:
      throw core::Error(
          core::Errc::protocol,
          fmt::format("attributes: expected a type from 1 to 3, found {}; do both sides run the "
                      "same Tremula?",
                      type));
  }
}

std::string json(std::int64_t value) { return fmt::format("{}", value); }

/// Returns the shortest text that reads back as `value` and that JSON readers take for a
/// floating-point number: "1.0", "1e+20". Infinities and NaN, which JSON lacks, become texts.
std::string json(double value) {
  if (!std::isfinite(value)) return fmt::format("\"{}\"", value);
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string json(const std::string& value) { return proto::quoted(value); }

}  // namespace

void Attributes::set(std::string_view name, AttributeValues values) {
  core::expects(core::is_name(name), [&] {
    return fmt::format("name of an attribute: expected {}; found '{}'", core::name_rule,
                       shown(name));
  });
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&values))
    for (const std::string& text : *texts)
      core::expects(is_text(text), [&] {
        return fmt::format(
            "attribute '{}': expected UTF-8 text without control and format characters, except "
            "line feed and tab; found '{}'",
            name, shown(text));
      });
  const auto at = std::ranges::find(all_, name, &Attribute::name);
  const bool is_new = at == all_.end();
  core::expects(!is_new || all_.size() < max_attributes, [&] {
    return fmt::format(
        "attribute '{}': expected at most {} attributes, found one more; combine "
        "some into an array",
        name, max_attributes);
  });
  const std::size_t before = is_new ? 0 : proto::encoded_bytes(name, at->values);
  const std::size_t bytes = bytes_ - before + proto::encoded_bytes(name, values);
  core::expects(bytes <= max_attributes_bytes, [&] {
    return fmt::format(
        "attribute '{}': expected at most {} bytes of names and values together, found {}; put "
        "long values into a field",
        name, max_attributes_bytes, bytes);
  });
  if (is_new)
    all_.push_back({std::string(name), std::move(values)});
  else
    at->values = std::move(values);
  bytes_ = bytes;
}

const Attribute* Attributes::find(std::string_view name) const noexcept {
  const auto at = std::ranges::find(all_, name, &Attribute::name);
  return at == all_.end() ? nullptr : &*at;
}

void Attributes::clear() noexcept {
  all_.clear();
  bytes_ = 0;
}

core::Bytes encode(const Attributes& attributes) {
  core::Bytes out;
  out.reserve(attributes.encoded_bytes());
  for (const Attribute& attribute : attributes.all()) put(out, attribute);
  return out;
}

std::uint32_t hash(const Attributes& attributes) {
  if (attributes.all().empty()) return 0;
  std::vector<const Attribute*> sorted;
  for (const Attribute& attribute : attributes.all()) sorted.push_back(&attribute);
  std::ranges::sort(sorted, {}, &Attribute::name);
  core::Bytes bytes;
  bytes.reserve(attributes.encoded_bytes());
  for (const Attribute* attribute : sorted) put(bytes, *attribute);
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  return std::max(static_cast<std::uint32_t>(hash ^ hash >> 32), std::uint32_t{1});
}

std::string first_difference(const Attributes& one, const Attributes& other) {
  for (const auto& [a, b] : {std::pair(&one, &other), std::pair(&other, &one)})
    for (const Attribute& attribute : a->all()) {
      const Attribute* const found = b->find(attribute.name);
      if (found == nullptr || encoded(*found) != encoded(attribute)) return attribute.name;
    }
  return {};
}

Attributes decode_attributes(core::BytesView bytes) {
  if (bytes.size() > max_attributes_bytes)
    throw core::Error(core::Errc::protocol,
                      fmt::format("attributes: expected at most {} bytes, found {}",
                                  max_attributes_bytes, bytes.size()));
  Attributes out;
  for (Reader in(bytes); in.has_more();) {
    const auto name_bytes = in.number<std::uint16_t>();
    const auto type = in.number<std::uint16_t>();
    const auto count = in.number<std::uint32_t>();
    const auto name = in.text(name_bytes);
    if (out.find(name) != nullptr)
      throw core::Error(
          core::Errc::protocol,
          fmt::format("attributes: expected unique names, found '{}' twice", shown(name)));
    try {
      out.set(name, values_of(in, type, count));
    } catch (const core::Error& error) {
      throw core::Error(core::Errc::protocol, error.what());
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < ' ')
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string to_json(const AttributeValues& values) {
  return std::visit(
      [](const auto& of) {
        std::string out;
        for (const auto& value : of) out += (out.empty() ? "" : ", ") + json(value);
        return of.size() == 1 ? out : '[' + out + ']';
      },
      values);
}

std::string to_json(const Attributes& attributes) {
  std::string out;
  for (const Attribute& attribute : attributes.all())
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", proto::quoted(attribute.name),
                       to_json(attribute.values));
  return '{' + out + '}';
}

}  // namespace tremula::proto
