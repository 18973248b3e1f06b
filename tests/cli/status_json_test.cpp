// SPDX-License-Identifier: Apache-2.0
#include "cli/status_json.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <string>

namespace tremula::cli {
namespace {

const std::string json_of(const std::string& text) {
  wire::Status status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &status)) << text;
  std::string json = status_json(status);
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok()) << json;
  return json;
}

void expect_parts(const std::string& json, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
}

TEST(StatusJson, KeepsNamesAndDefaults) {
  expect_parts(json_of("version: '0.1' groups { name: 'g' } streams { name: 's' }"),
               {"\"listens_on\": \"\"", "\"uptime_seconds\": 0", "\"queue_depth\": 0",
                "\"connected\": 0", "\"waiting_consumers\": []", "\"closed\": false"});
}

TEST(StatusJson, GivesNumbersAsNumbersAndTypesByName) {
  const std::string json = json_of(
      "groups { name: 'a \\\"b\\\" \\\\' size: 2 pid: -5 } streams { name: 's' "
      "produced { bytes: 18446744073709551615 wait_seconds: 0.25 } "
      "fields { name: 'u' element_type: 10 layout: 'shape=8 grid=1' origin: 3 origin: 4 } "
      "waiting_consumers: 'v' waiting_consumers: 'w' closed: true }");
  expect_parts(json, {"\"bytes\": 18446744073709551615", "\"wait_seconds\": 0.25", "\"size\": 2",
                      "\"pid\": -5", "\"element_type\": \"f64\"", "\"origin\": [3, 4]",
                      "\"waiting_consumers\": [\"v\", \"w\"]", "\"closed\": true",
                      "\"name\": \"a \\\"b\\\" \\\\\""});
  expect_parts(json_of("streams { produced { time: -7 ranks { rank: 1 } } }"),
               {"\"time\": -7", "\"time\": null", "\"attributes\": {}"});
  expect_parts(json_of("streams { attributes: '\\001\\000\\001\\000\\001\\000\\000\\000n"
                       "\\005\\000\\000\\000\\000\\000\\000\\000' }"),
               {"\"attributes\": {\"n\": 5}"});
  expect_parts(json_of("streams { when_full: WHEN_FULL_DROP_OLDEST } streams {}"),
               {"\"when_full\": \"drop_oldest\"", "\"when_full\": \"block\""});
}

}  // namespace
}  // namespace tremula::cli
