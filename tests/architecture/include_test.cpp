// SPDX-License-Identifier: Apache-2.0
// Checks, by the #include lines of the tree, which headers of other rooms each room includes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string_view>;

struct Room {
  std::string_view name;
  Words may_know;  // rooms whose headers it may include, besides its own
};
const std::array rooms{
    Room{"core", {}},
    Room{"index_calc", {"core"}},
    Room{"transport", {"core"}},
    Room{"proto", {"core", "index_calc"}},
    Room{"client", {"core", "index_calc", "transport", "proto"}},
    Room{"server", {"core", "transport", "proto"}},
    Room{"cli", {"core", "index_calc", "transport", "proto", "client", "server"}},
    Room{"bindings", {}},
    Room{"coupling", {}},
    Room{"examples", {}},
    Room{"tests",
         {"core", "index_calc", "transport", "proto", "client", "server", "cli", "coupling",
          "examples"}},
};

// Returns true for rooms that may include only installed headers, as applications do.
bool sees_installed_headers(const Room& room) {
  return room.name == "bindings" || room.name == "coupling" || room.name == "examples";
}

// A folder of a room, and the folders of that room whose headers it may include, besides its own.
struct Folder {
  std::string_view name;
  Words may_know;
};
const std::array folders{
    Folder{"index_calc/basics/", {}},
    Folder{"index_calc/skew/", {"index_calc/basics/"}},
    Folder{"index_calc/layout/", {"index_calc/basics/", "index_calc/skew/"}},
    Folder{"index_calc/overlap/", {"index_calc/layout/"}},
    Folder{"index_calc/lists/",
           {"index_calc/basics/", "index_calc/skew/", "index_calc/layout/", "index_calc/overlap/"}},
    Folder{"index_calc/view/", {"index_calc/basics/", "index_calc/layout/", "index_calc/lists/"}},
    Folder{"index_calc/plan/",
           {"index_calc/basics/", "index_calc/skew/", "index_calc/layout/", "index_calc/overlap/",
            "index_calc/lists/"}},
    Folder{"index_calc/pack/", {"index_calc/layout/", "index_calc/overlap/", "index_calc/plan/"}},
    Folder{"index_calc/transform/",
           {"index_calc/layout/", "index_calc/overlap/", "index_calc/plan/", "index_calc/pack/"}},
    Folder{"index_calc/proof/",
           {"index_calc/basics/", "index_calc/layout/", "index_calc/overlap/", "index_calc/lists/",
            "index_calc/plan/", "index_calc/pack/"}},
    Folder{"index_calc/relabel/",
           {"index_calc/layout/", "index_calc/overlap/", "index_calc/plan/"}},
    Folder{"client/include/", {}},
    Folder{"client/exchange/plan/", {}},
    Folder{"client/exchange/memory/", {"client/exchange/plan/"}},
    Folder{"client/exchange/path/", {"client/exchange/plan/", "client/exchange/memory/"}},
    Folder{"client/exchange/",
           {"client/exchange/plan/", "client/exchange/memory/", "client/exchange/path/"}},
    Folder{"client/waiting/", {}},
    Folder{"client/session/", {"client/exchange/", "client/waiting/"}},
    Folder{"client/stream/link/", {"client/exchange/", "client/waiting/", "client/session/"}},
    Folder{"client/stream/consumers/",
           {"client/exchange/", "client/waiting/", "client/session/", "client/stream/link/"}},
    Folder{"client/stream/producers/",
           {"client/exchange/", "client/waiting/", "client/session/", "client/stream/link/"}},
    Folder{"client/stream/",
           {"client/exchange/", "client/waiting/", "client/session/", "client/stream/link/",
            "client/stream/consumers/", "client/stream/producers/"}},
    Folder{"client/redistribute/", {"client/exchange/", "client/waiting/", "client/session/"}},
    Folder{"client/c_api/",
           {"client/include/", "client/exchange/", "client/session/", "client/stream/",
            "client/redistribute/"}},
    Folder{"client/mpi/",
           {"client/include/", "client/exchange/", "client/session/", "client/redistribute/",
            "client/c_api/"}},
    Folder{"client/scalapack/",
           {"client/include/", "client/exchange/", "client/session/", "client/redistribute/"}},
    Folder{"server/state/", {}},
    Folder{"server/rendezvous/", {"server/state/"}},
    Folder{"server/", {"server/state/", "server/rendezvous/"}},
    Folder{"cli/plan/picture/", {}},
};

struct Technology {
  std::string_view name;
  std::string_view headers;  // regex over the whole name
  Words homes;               // the only paths that may include them
};
const std::array technologies{
    Technology{"MPI",
               R"(mpi\.h|tremula/tremula_mpi\.h)",
               {"transport/mpi/", "client/include/tremula/tremula_mpi.h",
                "client/redistribute/mpi_job.hpp", "client/mpi/", "client/scalapack/",
                "coupling/oasis/", "examples/", "tests/"}},
    Technology{"libfabric", R"(rdma/.*)", {"transport/ofi/"}},
    Technology{"Boost.Intrusive", R"(boost/intrusive/.*)", {"transport/local/"}},
    Technology{"Asio", R"(boost/(?!intrusive/).*|asio.*)", {"transport/control/", "server/"}},
    Technology{"Protobuf",
               R"(google/protobuf/.*|.*\.pb\.h)",
               {"proto/", "client/", "server/", "cli/", "tests/"}},
    Technology{"OpenSSL", R"(openssl/.*)", {"transport/control/", "tests/"}},
    Technology{"spdlog", R"(spdlog/.*)", {"core/log.cpp"}},
    Technology{"yaml-cpp", R"(yaml-cpp/.*)", {"client/", "server/", "cli/", "coupling/", "tests/"}},
    Technology{"NetCDF", R"(netcdf.*)", {"coupling/", "examples/", "tests/"}},
    Technology{"CLI11", R"(CLI/.*)", {"cli/", "examples/", "tests/"}},
    Technology{"Cairo", R"(cairo.*)", {"cli/plan/picture/picture_png.cpp", "examples/"}},
};

// Headers that index_calc, which is pure, may not include: clocks, files, threads, random numbers.
const std::regex impure(
    R"(thread|mutex|shared_mutex|atomic|condition_variable|future|chrono|ctime|iostream|fstream|cstdio|filesystem|random|unistd\.h|sys/.*)");

bool starts_with_any(std::string_view path, const Words& prefixes) {
  return std::ranges::any_of(prefixes, [&](auto prefix) { return path.starts_with(prefix); });
}

const Room* room_of(std::string_view path) {
  const auto found = std::ranges::find(rooms, path.substr(0, path.find('/')), &Room::name);
  return found == rooms.end() ? nullptr : &*found;
}

// Returns the innermost folder that has its own rules; null if there is none.
const Folder* folder_of(std::string_view path) {
  const Folder* found = nullptr;
  for (const Folder& folder : folders)
    if (path.starts_with(folder.name) && (!found || folder.name.size() > found->name.size()))
      found = &folder;
  return found;
}

// Returns "ofi" for transport/ofi/endpoint.hpp, "" for transport/transport.hpp.
std::string_view backend_of(std::string_view path) {
  constexpr std::string_view transport = "transport/";
  if (!path.starts_with(transport)) return {};
  path.remove_prefix(transport.size());
  const auto slash = path.find('/');
  return slash == path.npos ? std::string_view{} : path.substr(0, slash);
}

/// Returns why `file` may not include `header`; nullopt if it may.
std::optional<std::string> objection(std::string_view file, std::string_view header) {
  const Room& room = *room_of(file);
  if (header.find("..") != header.npos) return "write the path from the root of the tree";
  const Room* known = room_of(header);
  if (header.starts_with("tremula/"))
    known = room_of(sees_installed_headers(room) ? file : std::string_view("client/"));
  if (known && known->name != room.name &&
      std::ranges::find(room.may_know, known->name) == room.may_know.end())
    return std::string(room.name) + "/ may not know " + std::string(known->name) + "/";
  const Folder* const folder = folder_of(file);
  const Folder* const other = folder_of(header);
  if (folder && other && folder != other && room_of(file) == room_of(header) &&
      !starts_with_any(header, folder->may_know))
    return std::string(folder->name) + " may not know " + std::string(other->name);
  const bool is_proof = file.starts_with("transport/tcp/") &&
                        header == "transport/control/authentication.hpp";  // peers prove the key
  if (!backend_of(file).empty() && !backend_of(header).empty() &&
      backend_of(file) != backend_of(header) && !is_proof)
    return "parts of transport/ are blind to each other";
  for (const Technology& technology : technologies) {
    const std::regex headers(technology.headers.begin(), technology.headers.end());
    if (std::regex_match(header.begin(), header.end(), headers) &&
        !starts_with_any(file, technology.homes)) {
      std::string homes;
      for (const auto home : technology.homes) homes += " " + std::string(home);
      return std::string(technology.name) + " belongs to" + homes;
    }
  }
  if (room.name == "index_calc" && std::regex_match(header.begin(), header.end(), impure))
    return "index_calc/ is pure: no I/O, threads, clock, random numbers";
  return std::nullopt;
}

std::vector<fs::path> sources() {
  const fs::path root = TREMULA_SOURCE_DIR;
  std::vector<fs::path> found;
  for (const Room& room : rooms)
    for (const auto& entry : fs::recursive_directory_iterator(root / room.name)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".hpp" || extension == ".c" || extension == ".cpp")
        found.push_back(entry.path());
    }
  return found;
}

TEST(Architecture, IncludesFollowTheRulesOfTheRooms) {
  const std::regex include(R"re(\s*#\s*include\s*[<"]([^>"]+)[>"].*)re");
  std::size_t seen = 0;
  for (const fs::path& path : sources()) {
    const std::string file = path.lexically_relative(TREMULA_SOURCE_DIR).generic_string();
    std::ifstream text(path);
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      std::smatch match;
      if (!std::regex_match(line, match, include)) continue;
      ++seen;
      const std::string header = match[1];
      const auto why = objection(file, header);
      EXPECT_FALSE(why) << file << ":" << number << " includes " << header << ": "
                        << why.value_or("");
    }
  }
  EXPECT_GT(seen, 50u) << "hardly any #include found: is " TREMULA_SOURCE_DIR " the tree?";
}

// Every header compiles alone: a development build proves this with the source of the same name, or else
// with a generated source (CMakeLists.txt). Its guard allows a header to be included twice.
TEST(Architecture, AHeaderHasAGuardAndItsSourceIncludesItFirst) {
  const std::regex include(R"re(\s*#\s*include\s*[<"]([^>"]+)[>"].*)re");
  const std::regex guard(R"re(#pragma once|#ifndef TREMULA_\w+)re");
  std::size_t seen = 0;
  for (const fs::path& path : sources()) {
    const std::string file = path.lexically_relative(TREMULA_SOURCE_DIR).generic_string();
    if (file.starts_with("tests/") || file.starts_with("examples/")) continue;
    std::ifstream text(path);
    std::string line;
    std::smatch match;
    if (path.extension() != ".cpp") {
      if (path.extension() == ".c") continue;
      bool has_guard = false;
      while (!has_guard && std::getline(text, line)) has_guard = std::regex_match(line, guard);
      EXPECT_TRUE(has_guard) << file;
    } else if (fs::exists(fs::path(path).replace_extension("hpp"))) {
      while (std::getline(text, line) && !std::regex_match(line, match, include)) {
      }
      const std::string own = fs::path(file).replace_extension("hpp").generic_string();
      EXPECT_TRUE(!match.empty() && own.ends_with(match[1].str())) << file;
      ++seen;
    }
  }
  EXPECT_GT(seen, 50u);
}

TEST(Architecture, EveryRoomOpensWithAPage) {
  for (const Room& room : rooms) {
    if (room.name == "tests") continue;  // mirrors the rooms
    EXPECT_TRUE(fs::exists(fs::path(TREMULA_SOURCE_DIR) / room.name / "README.md")) << room.name;
  }
}

TEST(Architecture, SourcesOfRoomsWithFoldersAreInAFolder) {
  for (const fs::path& path : sources()) {
    const std::string file = path.lexically_relative(TREMULA_SOURCE_DIR).generic_string();
    const bool has_folders = file.starts_with("index_calc/") || file.starts_with("client/");
    EXPECT_TRUE(!has_folders || folder_of(file)) << file;
  }
}

TEST(Architecture, AFolderWithRulesIsSmallAndOpensWithAPage) {
  constexpr std::ptrdiff_t most_sources = 16;
  for (const Folder& folder : folders) {
    const fs::path path = fs::path(TREMULA_SOURCE_DIR) / folder.name;
    EXPECT_TRUE(fs::exists(path / "README.md")) << folder.name;
    const auto is_source = [](const fs::directory_entry& entry) {
      const auto extension = entry.path().extension();
      return extension == ".h" || extension == ".hpp" || extension == ".c" || extension == ".cpp";
    };
    EXPECT_LE(std::count_if(fs::directory_iterator(path), {}, is_source), most_sources)
        << folder.name;
  }
}

TEST(Rules, RefuseForbiddenIncludes) {
  const std::pair<std::string_view, std::string_view> forbidden[] = {
      {"core/log.hpp", "index_calc/layout/layout.hpp"},
      {"core/error.hpp", "spdlog/spdlog.h"},
      {"index_calc/plan/plan.cpp", "transport/transport.hpp"},
      {"index_calc/plan/plan.cpp", "proto/convert.hpp"},
      {"index_calc/plan/plan.cpp", "chrono"},
      {"transport/ofi/endpoint.cpp", "index_calc/plan/plan.hpp"},
      {"transport/ofi/endpoint.cpp", "mpi.h"},
      {"transport/ofi/endpoint.cpp", "transport/mpi/endpoint.hpp"},
      {"transport/mpi/endpoint.cpp", "rdma/fabric.h"},
      {"transport/loopback/loopback.cpp", "boost/asio.hpp"},
      {"transport/local/list.hpp", "boost/asio.hpp"},
      {"transport/control/frame.cpp", "boost/intrusive/list.hpp"},
      {"transport/control/frame.cpp", "google/protobuf/message.h"},
      {"proto/convert.hpp", "transport/transport.hpp"},
      {"client/session/session.cpp", "server/registry.hpp"},
      {"client/session/session.cpp", "mpi.h"},
      {"client/c_api/c_api.cpp", "tremula/tremula_mpi.h"},
      {"client/session/session.cpp", "boost/asio/ip/tcp.hpp"},
      {"server/registry.cpp", "client/session/session.hpp"},
      {"server/registry.cpp", "index_calc/layout/layout.hpp"},
      {"server/registry.cpp", "tremula/tremula.h"},
      {"client/session/session.cpp", "cli/serve.hpp"},
      {"examples/tsunami/producer.cpp", "core/error.hpp"},
      {"coupling/oasis/coupler.cpp", "core/error.hpp"},
      {"coupling/oasis/coupler.cpp", "client/session/session.hpp"},
      {"client/session/session.cpp", "coupling/oasis/coupler.hpp"},
      {"client/session/session.cpp", "netcdf.h"},
      {"index_calc/layout/layout.cpp", "index_calc/plan/plan.hpp"},
      {"index_calc/plan/plan.cpp", "index_calc/pack/pack.hpp"},
      {"index_calc/pack/pack.cpp", "index_calc/relabel/relabel.hpp"},
      {"client/exchange/path/ring.cpp", "client/exchange/source.hpp"},
      {"client/exchange/source.cpp", "client/session/session.hpp"},
      {"client/stream/out_stream.cpp", "client/redistribute/redistribution.hpp"},
      {"client/session/session.cpp", "client/stream/link/link.hpp"},
      {"client/session/session.cpp", "../server/registry.hpp"},
  };
  for (const auto& [file, header] : forbidden)
    EXPECT_TRUE(objection(file, header)) << file << " could include " << header;
}

TEST(Rules, AllowNeededIncludes) {
  const std::pair<std::string_view, std::string_view> allowed[] = {
      {"core/log.cpp", "spdlog/spdlog.h"},
      {"index_calc/plan/plan.cpp", "core/types.hpp"},
      {"index_calc/plan/plan.cpp", "vector"},
      {"transport/mpi/endpoint.cpp", "mpi.h"},
      {"transport/ofi/endpoint.cpp", "transport/transport.hpp"},
      {"transport/local/list.hpp", "boost/intrusive/list.hpp"},
      {"proto/convert.cpp", "proto/control.pb.h"},
      {"client/exchange/exchange.cpp", "index_calc/plan/plan.hpp"},
      {"client/c_api/c_api.cpp", "tremula/tremula.h"},
      {"client/mpi/mpi_session.cpp", "tremula/tremula_mpi.h"},
      {"client/scalapack/blacs.cpp", "mpi.h"},
      {"server/server.cpp", "transport/control/listener.hpp"},
      {"cli/main.cpp", "server/server.hpp"},
      {"examples/00_quick_start/producer.cpp", "tremula/tremula_mpi.h"},
      {"coupling/oasis/coupler.cpp", "tremula/tremula_mpi.h"},
      {"tests/proto/convert_test.cpp", "proto/convert.hpp"},
  };
  for (const auto& [file, header] : allowed)
    EXPECT_FALSE(objection(file, header)) << file << ": " << objection(file, header).value_or("");
}

}  // namespace
