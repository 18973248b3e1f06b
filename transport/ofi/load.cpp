// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/load.hpp"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.hpp"

namespace tremula::transport::ofi {

using core::Errc, core::Error;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view module_name = "libtremula_ofi.so";

/// Returns the library or program that contains this function.
fs::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  std::error_code ignored;
  if (dladdr1(reinterpret_cast<void*>(&own_file), &info, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0)
    return {};
  const bool is_program = map->l_name[0] == '\0';
  return fs::canonical(is_program ? "/proc/self/exe" : map->l_name, ignored);
}

/// Returns the file of the module; empty if there is none. The module is in the folder of
/// libtremula.so or, for a program that contains this code, in the program's folder or in the folder
/// of libraries next to it.
fs::path module_file() {
  const fs::path folder = own_file().parent_path();
  for (const char* subfolder : {".", "../lib", TREMULA_LIBRARIES_FROM_PROGRAMS}) {
    std::error_code ignored;
    const fs::path file = folder / subfolder / module_name;
    if (fs::exists(file, ignored)) return file;
  }
  return {};
}

/// The destructor restores the signal handlers that the constructor found: libraries that libfabric
/// loads (libinfinipath) catch signals to write backtraces. In between, signals to this thread are
/// held back; a signal that another thread handles may run the foreign handler.
class SignalHandlersKept {
public:
  SignalHandlersKept() {
    for (int number = 1; number < NSIG; ++number) sigaction(number, nullptr, &before_[at(number)]);
  }
  ~SignalHandlersKept() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now {};
      const struct sigaction& before = before_[at(number)];
      if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != before.sa_handler)
        sigaction(number, &before, nullptr);
    }
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  std::array<struct sigaction, NSIG> before_{};
  core::SignalsBlocked blocked_;  // last: signals wait until the handlers are back
};

/// Sets defaults of variables that libfabric reads in its first call, and never again. Variables
/// that the user has set are kept. The defaults are in a separate list, which replaces the environment
/// for a moment: setenv would change the application's environment while another thread may read
/// it.
class DefaultsSet {
public:
  DefaultsSet() : before_(environ) {
    std::vector<char*> list;
    for (char** variable = before_; variable != nullptr && *variable != nullptr; ++variable)
      list.push_back(*variable);
    for (char* const variable : {rx_size.data(), buffer_bytes.data()})
      if (is_new(name_of(variable))) list.push_back(variable);
    for (const char* const name : set_by_providers) is_new(name);
    list.push_back(nullptr);
    list_ = kept(std::move(list));
    environ = list_;
  }
  ~DefaultsSet() {
    if (environ == list_) {
      environ = before_;
      return;
    }
    // A provider has called setenv, which made a new list from ours and may have freed the old one:
    // the new list stays, without the variables that the application has not set.
    for (const std::string& name : added_) unsetenv(name.c_str());
  }
  DefaultsSet(const DefaultsSet&) = delete;
  DefaultsSet& operator=(const DefaultsSet&) = delete;

private:
  // With these, an endpoint of tcp;ofi_rxm opens four times as fast, and takes 12 MiB instead of
  // more than 70: a rank has one endpoint per stream, and one for its group.
  static inline std::array rx_size = std::to_array("FI_OFI_RXM_MSG_RX_SIZE=128");
  static inline std::array buffer_bytes = std::to_array("FI_OFI_RXM_BUFFER_SIZE=4096");
  // psm2 and verbs set these variables when libfabric checks whether their networks exist.
  static constexpr std::array set_by_providers{"PSM2_MULTI_EP", "RDMAV_HUGEPAGES_SAFE",
                                               "RDMAV_FORK_SAFE"};

  static std::string name_of(std::string_view variable) {
    return std::string(variable.substr(0, variable.find('=')));
  }
  /// Returns whether the application has left this variable unset; if so, records its name.
  bool is_new(const std::string& name) {
    if (std::getenv(name.c_str()) != nullptr) return false;
    added_.push_back(name);
    return true;
  }

  /// Returns a list that is never freed, because another thread may be reading it. A list that
  /// equals the previous one is not stored again.
  static char** kept(std::vector<char*> list) {
    static auto& lists = *new std::deque<std::vector<char*>>;
    if (lists.empty() || lists.back() != list) lists.push_back(std::move(list));
    return lists.back().data();
  }

  char** before_;
  char** list_ = nullptr;
  std::vector<std::string> added_;
};

const Module& load() {
  const std::string file = module_file().string();
  if (file.empty())
    throw Error(Errc::unsupported, "ofi: expected " + std::string(module_name) +
                                       " in the folder of libtremula.so; found none "
                                       "there; install it, or choose another transport");
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* const entry = library == nullptr ? nullptr : dlsym(library, "tremula_ofi_module");
  if (entry == nullptr)
    throw Error(Errc::unsupported, std::string("ofi: expected to load libfabric; found: ") +
                                       dlerror() +
                                       "; install libfabric, or choose another "
                                       "transport");
  const Module& module = *reinterpret_cast<decltype(&tremula_ofi_module)>(entry)();
  if (std::string_view(module.version) != TREMULA_VERSION)
    throw Error(Errc::unsupported, "ofi: expected " + file +
                                       " of Tremula " TREMULA_VERSION "; found version " +
                                       module.version + "; install both together");
  return module;
}

}  // namespace

bool is_installed() { return !module_file().empty(); }

std::unique_ptr<Providers> find(const OfiOptions& options) {
  static std::mutex one_at_a_time;  // each call restores the state of the process that it found
  const std::scoped_lock lock(one_at_a_time);
  const SignalHandlersKept handlers;
  const DefaultsSet defaults;
  return load().find(options);
}

}  // namespace tremula::transport::ofi
