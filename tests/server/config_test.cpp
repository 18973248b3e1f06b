// SPDX-License-Identifier: Apache-2.0
#include "server/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "core/error.hpp"

namespace tremula::server {
namespace {

namespace fs = std::filesystem;

class ConfigFile : public testing::Test {
protected:
  ~ConfigFile() override { fs::remove(path); }
  void write(const std::string& text) { std::ofstream(path) << text; }
  Config load(const ConfigTexts& arguments = {},
              const std::map<std::string, std::string>& variables = {}) {
    const auto environment = [&](const char* name) {
      const auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    };
    return load_config(arguments, environment,
                       fs::exists(path) ? std::optional(path) : std::nullopt);
  }
  std::string error_of(const auto& call) {
    try {
      call();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::Errc::invalid_argument);
      return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return "";
  }
  const fs::path path =
      fs::path(testing::TempDir()) / ("tremula_config_" + std::to_string(::getpid()) + ".yaml");
  const std::string file = "config file '" + path.string() + "'";
};

TEST_F(ConfigFile, HasDefaults) {
  const Config config = load();
  EXPECT_EQ(config.bind, "127.0.0.1");
  EXPECT_EQ(config.port, 7423);
  EXPECT_FALSE(config.port_file);
  EXPECT_EQ(config.log, core::LogLevel::info);
  EXPECT_EQ(config.heartbeat_seconds, 1);
}

TEST_F(ConfigFile, YieldsToTheEnvironmentAndToArguments) {
  write("bind: 0.0.0.0\nport: 1\nport_file: f\nlog: debug\nheartbeat: 0.5\n");
  Config config = load();
  EXPECT_EQ(config.bind, "0.0.0.0");
  EXPECT_EQ(config.port, 1);
  EXPECT_EQ(config.port_file, "f");
  EXPECT_EQ(config.log, core::LogLevel::debug);
  EXPECT_EQ(config.heartbeat_seconds, 0.5);

  const std::map<std::string, std::string> variables{{"TREMULA_BIND", "::1"},
                                                     {"TREMULA_PORT", "2"},
                                                     {"TREMULA_PORT_FILE", "e"},
                                                     {"TREMULA_LOG", "off"},
                                                     {"TREMULA_HEARTBEAT", "2"}};
  config = load({}, variables);
  EXPECT_EQ(config.bind, "::1");
  EXPECT_EQ(config.port, 2);
  EXPECT_EQ(config.port_file, "e");
  EXPECT_EQ(config.log, core::LogLevel::off);
  EXPECT_EQ(config.heartbeat_seconds, 2);

  config = load({{"bind", "localhost"},
                 {"port", "0"},
                 {"port_file", "a"},
                 {"log", "error"},
                 {"heartbeat", "60"}},
                variables);
  EXPECT_EQ(config.bind, "127.0.0.1");
  EXPECT_EQ(config.port, 0);
  EXPECT_EQ(config.port_file, "a");
  EXPECT_EQ(config.log, core::LogLevel::error);
  EXPECT_EQ(config.heartbeat_seconds, 60);
}

TEST_F(ConfigFile, TakesAKeyFromAFileOrTheEnvironment) {
  EXPECT_FALSE(load().key_source.key);
  EXPECT_EQ(load({{"key_file", "a"}}, {{"TREMULA_KEY_FILE", "e"}}).key_source.file, "a");
  EXPECT_EQ(load({}, {{"TREMULA_KEY_FILE", "e"}}).key_source.file, "e");
  EXPECT_TRUE(load({}, {{"TREMULA_KEY", "0123456789abcdef"}}).key_source.key);
  EXPECT_EQ(error_of([&] {
              load({{"key_file", "a"}}, {{"TREMULA_KEY", "0123456789abcdef"}});
            }),
            "key_file: expected no other key, found TREMULA_KEY in the environment; unset one");
  EXPECT_EQ(error_of([&] {
              load({{"key_file", ""}});
            }),
            "key_file (from --key-file): expected the path of a file, or none, found ''");
}

TEST_F(ConfigFile, NeedsBothFilesOfTlsOrNeither) {
  const Config config = load({{"tls_key", "k"}}, {{"TREMULA_TLS_CERTIFICATE", "c"}});
  EXPECT_EQ(config.tls_certificate, "c");
  EXPECT_EQ(config.tls_key, "k");
  for (const char* key : {"tls_key", "tls_certificate"})
    EXPECT_EQ(error_of([&] {
                load({{key, "x"}});
              }),
              "tls_certificate and tls_key: expected both or neither, found one; a server that "
              "speaks TLS needs a certificate and its private key");
}

TEST_F(ConfigFile, MayBeEmpty) {
  write("# nothing\n");
  EXPECT_EQ(load().port, 7423);
}

TEST_F(ConfigFile, NamesKeyAndPlaceOfABadValue) {
  const std::string port = "expected a port from 0 (any free one) to 65535, found ";
  EXPECT_EQ(error_of([&] {
              load({{"port", "65536"}});
            }),
            "port (from --port): " + port + "'65536'");
  EXPECT_EQ(error_of([&] { load({{"port", ""}}); }), "port (from --port): " + port + "''");
  EXPECT_EQ(error_of([&] {
              load({}, {{"TREMULA_PORT", "-1"}});
            }),
            "port (from TREMULA_PORT): " + port + "'-1'");
  EXPECT_EQ(error_of([&] {
              load({{"bind", "me"}});
            }),
            "bind (from --bind): expected a numeric address of this host such as 127.0.0.1, "
            "0.0.0.0 or ::1, found 'me'");
  EXPECT_EQ(error_of([&] {
              load({{"port_file", ""}});
            }),
            "port_file (from --port-file): expected the path of a file, found ''");
  EXPECT_EQ(error_of([&] {
              load({}, {{"TREMULA_LOG", "loud"}});
            }),
            "log (from TREMULA_LOG): log level: expected one of off, error, warn, info, debug; "
            "found 'loud'");
  for (const char* text : {"0", "0.01", "61", "nan", "inf", "1s"})
    EXPECT_EQ(error_of([&] {
                load({{"heartbeat", text}});
              }),
              std::string("heartbeat (from --heartbeat): expected 0.05 to 60 seconds, found '") +
                  text + "'");
  EXPECT_EQ(error_of([&] {
              load({{"hello", "0"}});
            }),
            "hello (from --hello): expected 0.1 to 3600 seconds, found '0'");
  EXPECT_EQ(error_of([&] {
              load({}, {{"TREMULA_MEMORY", "-1"}});
            }),
            "memory (from TREMULA_MEMORY): expected 64 to 1048576 MiB, found '-1'");
  EXPECT_EQ(error_of([&] {
              load({{"connections_per_host", "0"}});
            }),
            "connections_per_host (from --connections-per-host): expected 1 to 10000000 "
            "connections, found '0'");
  write("bind: 127.0.0.1\n\nport: many\n");
  EXPECT_EQ(error_of([&] { load(); }), "port (from " + file + ", line 3): " + port + "'many'");
}

TEST_F(ConfigFile, NamesAnUnknownKeyAndItsLine) {
  write("port: 1\nprot: 2\n");
  EXPECT_EQ(error_of([&] { load(); }),
            file +
                ", line 2: unknown key 'prot'; expected one of bind, port, port_file, key_file, "
                "tls_certificate, tls_key, log, "
                "heartbeat, hello, connections_per_host, memory");
}

TEST_F(ConfigFile, NamesTheMalformedLine) {
  const struct {
    const char* text;
    std::string error;
  } rows[] = {
      {"port: 1\nport: 2\n", ", line 2: expected key 'port' once, found it twice"},
      {"port: [1, 2]\n", ", line 1: port: expected one value, found none or several"},
      {"port:\n", ", line 1: port: expected one value, found none or several"},
      {"- port\n", ", line 1: expected lines of 'key: value', found something else"},
      {"just text\n", ", line 1: expected lines of 'key: value', found something else"},
      {"bind: 127.0.0.1\nport: {1\n", ", line 3: expected YAML, found: "},
      {"[a]: 1\n",
       ", line 1: unknown key '(not a name)'; expected one of bind, port, port_file, key_file, "
       "tls_certificate, tls_key, "
       "log, heartbeat, hello, connections_per_host, memory"},
  };
  for (const auto& row : rows) {
    write(row.text);
    const std::string text = error_of([&] { load(); });
    EXPECT_EQ(text.find(file + row.error), 0u) << row.text << text;
  }
}

TEST_F(ConfigFile, MustExist) {
  const auto none = [](const char*) -> const char* { return nullptr; };
  EXPECT_EQ(error_of([&] { load_config({}, none, "/no/such/file"); }),
            "config file '/no/such/file': expected a readable file, found none");
}

}  // namespace
}  // namespace tremula::server
